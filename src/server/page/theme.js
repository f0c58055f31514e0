// theme.js - light or dark, before anything is painted. Not a module: those run too late for that.
'use strict';
try {
    const theme = localStorage.getItem('weft.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
    // Without storage the system's colours stand.
}
