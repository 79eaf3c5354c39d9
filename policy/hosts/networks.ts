/** The range of the applications' networks: small subnets, because the engine's own pools allow only about 30. */
export const applicationRange = '10.192.0.0/11'
