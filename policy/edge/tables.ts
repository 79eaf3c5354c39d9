/**
 * Memory of the proxy's tables that tenants fill, in MB. The proxy uses what it stores, so they are large enough for every account at its
 * bounds rather than for the usual one: 3,000 with all pages that they may have, and 6,000 applications with all networks.
 */
export const edgeTables = { settingsMb: 32, pagesMb: 256 } as const
