/** Pushes that one statement stores, or confirms: a busy process holds rows of applications for some tens of milliseconds. */
export const pushesAtOnce = 64
