/** The range that every application's network is cut from: small subnets, because the engine's own pools end near 30. */
export const applicationRange = '10.192.0.0/11'
