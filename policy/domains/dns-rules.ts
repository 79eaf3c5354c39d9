/** Bounds of what the platform reads from name servers and web servers that customers choose. */
export const dnsRules = {
  /** One question to one resolver, and how often each of them is queried. */
  questionMs: 1500,
  tries: 2,
  /** A question in all, whatever a resolver does. */
  deadlineMs: 10_000,
  /** Questions of one process at a time: more are lost on the way. */
  atOnce: 20,
  /** Of these, those of one account: silent name servers of its domains delay no other account. And how long a question waits for its turn. */
  perAsker: 4,
  waitMs: 10_000,
  /** An answer with more records is no answer, and longer records are not Berth's. */
  maxRecords: 100,
  maxRecordCharacters: 4096,
  /** CNAME records that are followed from a name. */
  maxChain: 8,
} as const

/** A request to a custom domain over http, from address to body. */
export const probeRules = { ms: 3000, bodyBytes: 1024, addresses: 4 } as const
