/**
 * Memory of the proxy's tables that tenants fill, in MB; it is used as they fill. Room for 4,000 applications with all networks that they
 * may have (8 KB each, in pages of 4 KB), and for 2,500 accounts with all pages (4 of 24 KB).
 */
export const edgeTables = { settingsMb: 32, pagesMb: 256 } as const
