import { clientScheme, type EdgeConfigOptions, requestId } from './edge-options.ts'
import { block, malformedPath } from './nginx-text.ts'

/**
 * The file in the proxy's folder that nginx is told to write lines to. Lua puts that of the hour in its place, so it
 * stays empty, unless nginx is told to open its log again: lines of the next second are lost in it then.
 */
export const logName = 'access.hour'

/** The file in the proxy's folder of what nginx says of requests to applications. */
export const errorsName = 'applications.errors'

/**
 * One JSON line per request: the nginx variable of each key. Numbers are not quoted, everything else is escaped text.
 * `seconds` is the whole request as the client saw it, `upstream_seconds` has one figure per try.
 */
const fields = {
  time: '"$time_iso8601"',
  at: '$msec',
  host: '"$host"',
  app: '"$app_id"',
  method: '"$request_method"',
  path: '"$uri"',
  query: '"$args"',
  status: '$log_status',
  bytes: '$bytes_sent',
  seconds: '$request_time',
  upstream_seconds: '"$upstream_response_time"',
  upstream_status: '"$upstream_status"',
  client: '"$remote_addr"',
  referer: '"$http_referer"',
  agent: '"$http_user_agent"',
  protocol: '"$server_protocol"',
  content_type: '"$sent_http_content_type"',
} as const

/**
 * Lines of applications. Of what is added here, surfaces have the id of the request only. `cache` is `dynamic` where the cache was not
 * asked. `edge_ms` is the time until the first byte was on its way to the client, `origin_ms` until the last application that was tried
 * had sent its headers; null where that never was.
 * `mitigated` means that the proxy refused the request itself. `colo` names this proxy.
 */
const applicationFields = ({ settings, run }: EdgeConfigOptions) => ({
  ...fields,
  request_id: `"${requestId(run)}"`,
  scheme: `"${clientScheme(settings)}"`,
  cache: '"$cache_state"',
  edge_ms: '$edge_ms',
  origin_ms: '$log_origin_ms',
  tls: '"$ssl_protocol"',
  colo: `"${settings.place.name}"`,
  mitigated: '$mitigated',
})

/** Statuses with which the proxy refuses a request that no application has seen, and its reasons to answer 503. */
const refusals = [400, 403, 413, 421, 429, 431]
const reasons = ['full', 'share', 'maintenance']

/** Every time of a first try within 100 ms. */
const ordinary = Array.from({ length: 100 }, (_, ms) => `0.${String(ms).padStart(3, '0')} ${ms};`)

/**
 * The full format for applications, the same for request lines that nginx could not read, and one for the platform's surfaces without
 * fields that may contain a token.
 */
export function logFormats(options: EdgeConfigOptions): string[] {
  const application = applicationFields(options)
  const surface = { ...fields, path: '"$first_segment"', query: '""', referer: '""' }
  return [
    ...format('application', application),
    ...format('malformed', { ...application, path: '"$raw_path"' }),
    ...format('surface', { ...surface, request_id: `"${requestId(options.run)}"` }),
    // A refused request line leaves 000 or 009, which are not numbers in JSON.
    'map $status $log_status { 000 0; 009 0; default $status; }',
    `map $uri $asked_path { "${malformedPath}" $raw_path; default $uri; }`,
    'map $request_uri $raw_path { "~^(?<raw>[^?]*)" $raw; default ""; }',
    'map $asked_path $first_segment { "~^(?<first>/[^/]*)" $first; default "/"; }',
    // The last of one figure for each try, as in `0.251, 1.020`, in ms without leading zeros.
    ...block('map $upstream_header_time $log_origin_ms', [
      ...ordinary, // most of them, without a pattern
      '"~[ ,]0\\.000$" 0;',
      '"~(?:^|[ ,])0\\.0*(?<below_a_second>[1-9][0-9]*)$" $below_a_second;',
      '"~(?:^|[ ,])(?<whole>[1-9][0-9]*)\\.(?<part>[0-9]+)$" $whole$part;',
      'default null;',
    ]),
    // Two steps, so that most lines need one look-up of their status.
    ...block('map $status $mitigated', [
      ...refusals.map(status => `${status} $mitigated_unseen;`),
      '503 $mitigated_with_reason;',
      'default false;',
    ]),
    'map "$upstream_cache_status:$upstream_status" $mitigated_unseen { "~^:[-, :]*$" true; default false; }',
    `map $refusal $mitigated_with_reason { ${reasons.map(reason => `${reason} true;`).join(' ')} default false; }`,
  ]
}

function format(name: string, values: Record<string, string>): string[] {
  const line = Object.entries(values).map(([key, value]) => `"${key}":${value}`)
  return [`log_format ${name} escape=json '{${line.join(',')}}';`]
}
