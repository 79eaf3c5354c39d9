import { malformedPath } from './nginx-text.ts'

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
  path: '"$asked_path"',
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
  request_id: '"$request_id"',
} as const

/** The two formats: the full one for applications, and one for the platform's surfaces without fields that may contain a token. */
export function logFormats(): string[] {
  return [
    ...format('application', fields),
    ...format('surface', { ...fields, path: '"$first_segment"', query: '""', referer: '""' }),
    // A refused request line leaves 000 or 009, which are not numbers in JSON.
    'map $status $log_status { ~^0 0; default $status; }',
    `map $uri $asked_path { "${malformedPath}" $raw_path; default $uri; }`,
    'map $request_uri $raw_path { "~^(?<raw>[^?]*)" $raw; default ""; }',
    'map $asked_path $first_segment { "~^(?<first>/[^/]*)" $first; default "/"; }',
    'map $time_iso8601 $log_hour { "~^(?<hour>[0-9-]+T[0-9]+)" $hour; default unknown; }',
    'map $log_stopped $log_wanted { "" 1; default 0; }',
  ]
}

function format(name: string, values: Record<string, string>): string[] {
  const line = Object.entries(values).map(([key, value]) => `"${key}":${value}`)
  return [`log_format ${name} escape=json '{${line.join(',')}}';`]
}
