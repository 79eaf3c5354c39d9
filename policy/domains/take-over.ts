import type { DnsRecord } from './records.ts'

/** Of one record: whether DNS has it. `failed`: its name servers did not say. */
export type Sighting = 'seen' | 'missing' | 'failed'

/** What DNS says of the records of one account. */
export interface Sightings {
  txt: Sighting
  cname: Sighting
}

export interface Claim {
  /** The account that requests the name. */
  accountId: string
  /** The account that has it; null = none. */
  holder: { accountId: string; isProved: boolean } | null
}

/** `claim`: the name is free. `join`: the account has it, so this is another application behind it. `ask DNS`: only that decides. */
export type FirstAnswer = 'claim' | 'join' | 'ask DNS'

/** What is decided without DNS. Most requests are. */
export function firstAnswer({ accountId, holder }: Claim): FirstAnswer {
  if (holder === null) return 'claim'
  return holder.accountId === accountId ? 'join' : 'ask DNS'
}

/** True, false, or not known since a name server failed. */
type Finding = boolean | undefined

const isSeen = (sighting: Sighting): Finding => (sighting === 'failed' ? undefined : sighting === 'seen')
const either = (one: Finding, other: Finding): Finding =>
  one || other || (one === false && other === false ? false : undefined)
const both = (one: Finding, other: Finding): Finding => (one === false || other === false ? false : one && other)
const not = (one: Finding): Finding => (one === undefined ? undefined : !one)

/**
 * Whether a name changes hands. From an account that has never proved it, either record of the other one takes it. From one that has, it
 * takes the TXT record, and both records of the holder must have been removed: that needs control of the zone, while a CNAME alone may
 * be a leftover. `dns failed` only if the answers that are missing would decide.
 */
export function takeOverAnswer(
  holder: { isProved: boolean },
  asking: Sightings,
  holding: Sightings,
): 'take over' | 'refuse' | 'dns failed' {
  const proves = holder.isProved ? isSeen(asking.txt) : either(isSeen(asking.txt), isSeen(asking.cname))
  const isLeft = holder.isProved ? not(either(isSeen(holding.txt), isSeen(holding.cname))) : true
  const finding = both(proves, isLeft)
  if (finding === undefined) return 'dns failed'
  return finding ? 'take over' : 'refuse'
}

/** The message of DOMAIN_ALREADY_EXISTS, from the asking account's own record: it discloses nothing about the holder. */
export const takeOverMessage = ({ name, value }: DnsRecord): string =>
  `Another account uses this domain. If it is yours, set the TXT record ${name} to "${value}", remove other records of this platform from it, and send the request again.`
