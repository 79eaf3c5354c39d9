/** Codes of custom domains with their HTTP status (contract 10.1); see `managementErrors`. */
export const domainErrors = {
  INVALID_DOMAIN: [400, 'This is not a domain name. Send a host name such as www.example.com, or "@" to remove it.'],
  RESERVED_DOMAIN: [400, 'This name cannot be used as a custom domain. Use a name of your own domain.'],
  NO_CUSTOM_DOMAIN: [400, 'This application has no custom domain. Set one first.'],
  LOAD_BALANCER_LIMIT_REACHED: [
    403,
    'Your plan allows no more load balancers. Remove an application from a shared domain, or use another domain.',
  ],
  DOMAIN_ALREADY_EXISTS: [409, 'Another account uses this domain. Prove that it is yours to take it over.'],
  PURGE_CACHE_FAILED: [
    500,
    'The proxy did not confirm the purge. It takes effect as soon as the proxy answers again. To be sure, purge again in a minute.',
  ],
  DNS_FAILED: [502, 'The name servers of this domain did not answer. Check them, and try again.'],
} as const satisfies Record<string, readonly [status: number, message: string]>
