import type { LogLine } from '../../activities/analytics/port.ts'

/** One request as JSON: in three groups, and with the same keys flat, as existing clients read either. */
export function logEntryView({ timestamp, ...flat }: LogLine) {
  const { ip, country, location, asn, agent, category, status, contentType, cache, ...request } = flat
  return {
    timestamp,
    client: { ip, country, location, asn, agent, category },
    request,
    response: { status, contentType, cache },
    ...flat,
  }
}
