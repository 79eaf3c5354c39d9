import type { DuckDBConnection } from '@duckdb/node-api'

/** What an application stores of a day at most, or all of an account. */
interface DayShare {
  /** Of paths, queries, referers, methods and content types. */
  textBytes: number
  /** One by one. */
  requests: number
}

export interface DayShares {
  ofApp: DayShare
  ofAccount: DayShare
}

const unlimited: DayShare = { textBytes: Number.POSITIVE_INFINITY, requests: Number.POSITIVE_INFINITY }

/** Shares without the bounds that are not given. */
export const withoutOthers = (given: { [of in keyof DayShares]?: Partial<DayShare> }): DayShares => ({
  ofApp: { ...unlimited, ...given.ofApp },
  ofAccount: { ...unlimited, ...given.ofAccount },
})

export type AccountOf = (app: string) => string | undefined

/** What applications have stored of a day. */
export interface StoredShares {
  textBytes: Map<string, number>
  requests: Map<string, number>
  /** The accounts of applications when their requests were stored: one that was deleted since counts as before. */
  accounts: Map<string, string>
}

/** Reads `StoredShares` as rows of `kind`, `app`, `value` and `n`, where the value is the account. */
export const storedShares = (catalog: string): string =>
  `select 'textBytes' as kind, app, null as value, stored::double as n from ${catalog}.shares
  union all
  select 'requests', app, account, requests::double from ${catalog}.taken`

/** Counts the bytes of texts, the columns `app` and `bytes` of a query, in the shares of their applications. */
export const countedInShares = (catalog: string, texts: string): string => `
  insert into ${catalog}.shares
  select app, bytes from ${texts}
  on conflict (app) do update set stored = stored + excluded.stored`

/** Rows that are bound as one text, an array of JSON. */
export const boundRows = (name: string, shape: Record<string, string>) =>
  `(select unnest(from_json($${name}, '${JSON.stringify([shape])}'), recursive := true))`

/** Counts what applications have stored of a slice. */
export async function countStored(
  connection: DuckDBConnection,
  catalog: string,
  stored: Record<keyof DayShare, ReadonlyMap<string, number>>,
  accountOf: AccountOf,
): Promise<void> {
  const texts = boundRows('texts', { app: 'VARCHAR', bytes: 'UBIGINT' })
  await connection.run(countedInShares(catalog, texts), {
    texts: JSON.stringify([...stored.textBytes].map(([app, bytes]) => ({ app, bytes }))),
  })
  const requests = boundRows('requests', { app: 'VARCHAR', account: 'VARCHAR', requests: 'UBIGINT' })
  await connection.run(
    `insert into ${catalog}.taken
     select app, account, requests from ${requests}
     on conflict (app) do update set account = coalesce(excluded.account, account), requests = requests + excluded.requests`,
    {
      requests: JSON.stringify(
        [...stored.requests].map(([app, count]) => ({ app, account: accountOf(app) ?? null, requests: count })),
      ),
    },
  )
}

/** Those of these applications that have stored their share of a day, or whose account has. One whose account is not known has one of its own. */
export function pastShare(
  apps: Iterable<string>,
  stored: StoredShares,
  what: keyof DayShare,
  { ofApp, ofAccount }: DayShares,
  accountOf: AccountOf,
): Set<string> {
  const account = (app: string) => accountOf(app) ?? stored.accounts.get(app) ?? app
  const ofAccounts = new Map<string, number>()
  for (const [app, amount] of stored[what]) ofAccounts.set(account(app), (ofAccounts.get(account(app)) ?? 0) + amount)
  const isPast = (app: string) =>
    (stored[what].get(app) ?? 0) >= ofApp[what] || (ofAccounts.get(account(app)) ?? 0) >= ofAccount[what]
  return new Set([...apps].filter(isPast))
}
