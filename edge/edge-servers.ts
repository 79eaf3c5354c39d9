import type { EdgeSettings } from '../policy/edge/edge-settings.ts'
import { edgeTls } from '../policy/installation/edge-tls.ts'
import { applicationRoom } from '../policy/proxy-connections.ts'
import { cachedLocation } from './cache-lines.ts'
import { compressionLines } from './compression.ts'
import type { EdgeConfigOptions } from './edge-options.ts'
import { forwardedByStream } from './forwarded-headers.ts'
import { type Listener, listeners, listenLines } from './listeners.ts'
import { errorsName, logName } from './log-format.ts'
import { block, malformedPath, quotedNginx } from './nginx-text.ts'
import { namesOfSurface, type Surface } from './surfaces.ts'

/**
 * Closes idle connections to upstreams before the upstream does: Node's default is 5 s, and a request sent into a closing
 * connection is lost.
 */
const keepAlive = ['keepalive_timeout 4s;', 'keepalive_requests 10000;']

/** Leads to the location of what only the end of its stream tells from a request with a body. The proxy answers no client with it. */
const unannounced = 418

const proxied = ['proxy_read_timeout 120s;', 'proxy_pass http://applications;']

/** The default server of each port: a host name that is not the platform's own belongs to an application, or to none. */
export function applicationServers(options: EdgeConfigOptions): string[] {
  return [
    ...block('upstream applications', [
      'server 0.0.0.1;',
      'balancer_by_lua_block { router.balance() }',
      'keepalive 512;',
      ...keepAlive,
    ]),
    ...listeners(options).flatMap(listener => block('server', applicationLines(options, listener))),
  ]
}

function applicationLines(options: EdgeConfigOptions, listener: Listener): string[] {
  const { settings, workerConnections } = options
  const max = Math.max(1, settings.connectionsPerApp)
  const plain = listener.applications
  const page = `require('pages').application(${plain === 'refused'})`
  const room = applicationRoom(workerConnections)
  const admitted = [
    `access_by_lua_block { router.admit(${max}, ${room}, ${portOf(listener, plain)}) }`,
    'recursive_error_pages on;', // what fails in @again has its page too
    ...proxied,
  ]
  return [
    ...listenLines(options, listener, true),
    'server_name _;',
    // An application can make a line of each request, so the process's own log has no failure of a single request.
    'error_log stderr alert;',
    `error_log ${quotedNginx(options.folder, `/${errorsName}`)} warn;`,
    ...requestLines(options, 'application'),
    ...compressionLines(options),
    `client_max_body_size ${settings.appBodyMb}m;`,
    `error_page ${ownRefusals} 404 405 413 429 503 504 @page;`,
    'error_page 502 = @again;',
    ...malformed(page, logLine(options, 'malformed')),
    'header_filter_by_lua_block { router.answered() }',
    ...(listener.tls ? ['body_filter_by_lua_block { router.passing(false) }'] : []),
    'log_by_lua_block { departures.application() }',
    ...block('location /', [...(listener.tls ? [`if ($unannounced) { return ${unannounced}; }`] : []), ...admitted]),
    ...(listener.tls
      ? [
          `error_page ${unannounced} = @unannounced;`,
          // What is buffered until the stream ends: no client sends such a body but to try what happens.
          ...block('location @unannounced', [
            'client_max_body_size 1m;',
            'proxy_request_buffering on;',
            ...forwardedByStream(options),
            'body_filter_by_lua_block { router.passing(true) }',
            ...admitted,
          ]),
        ]
      : []),
    ...cachedLocation(options, proxied),
    // No port of a host accepts connections for 100 to 200 ms while its engine starts and rewrites its firewall rules.
    ...block('location @again', [
      'access_by_lua_block { router.again() }',
      'error_page 500 502 504 @page;',
      ...proxied,
    ]),
    `location @page { content_by_lua_block { ${page} } }`,
  ]
}

/** What the router learns of a port: that it is for TLS, or the rule for plain http, as Lua. */
function portOf({ tls }: Listener, plain: string | null): string {
  const rule = tls ? 'tls' : plain
  return rule ? `'${rule}'` : 'nil'
}

/** A server for each surface of the platform and port. The API itself limits bodies, with a code for each case. */
export function surfaceServers(options: EdgeConfigOptions): string[] {
  return (Object.entries(options.targets) as [Surface, string[]][]).flatMap(([surface, addresses]) => [
    ...block(`upstream surface_${surface}`, [
      ...addresses.map(address => `server ${address} max_fails=1 fail_timeout=1s;`),
      'keepalive 64;',
      ...keepAlive,
    ]),
    ...listeners(options).flatMap(listener => block('server', surfaceLines(options, listener, surface))),
  ])
}

function surfaceLines(options: EdgeConfigOptions, listener: Listener, surface: Surface): string[] {
  const plain = listener.surfaces
  const page = `require('pages').surface('${surface}', ${plain === 'refused'})`
  return [
    ...listenLines(options, listener),
    `server_name ${namesOfSurface(surface, options.settings).join(' ')};`,
    // The error log quotes the request with its query, which may contain a signature or a token; the access log has the status of each try.
    'error_log stderr alert;',
    ...requestLines(options, 'surface'),
    'client_max_body_size 0;',
    `error_page ${ownRefusals} 404 405 413 429 503 504 @failed;`,
    'error_page 502 =503 @failed;',
    ...malformed(page),
    'log_by_lua_block { departures.surface() }',
    ...block('location /', [
      `access_by_lua_block { router.admit_surface(${portOf(listener, plain)}) }`,
      'proxy_read_timeout 300s;',
      `proxy_pass http://surface_${surface};`,
    ]),
    `location @failed { content_by_lua_block { ${page} } }`,
  ]
}

/** Reads and changes the tables of the proxy. The socket's folder is closed to other users. */
export function controlServer(settings: EdgeSettings): string[] {
  // A body must fit into memory: one of certificates has keys, which belong in no temporary file.
  const body = (mb: number) => [`client_max_body_size ${mb}m;`, `client_body_buffer_size ${mb}m;`]
  return block('server', [
    `listen ${quotedNginx(`unix:${settings.controlSocket}`)};`,
    ...body(32),
    "location = /routes { content_by_lua_block { require('control').routes() } }",
    "location = /names { content_by_lua_block { require('control').names() } }",
    "location = /settings { content_by_lua_block { require('control').settings() } }",
    "location = /pages { content_by_lua_block { require('control').pages() } }",
    ...block('location = /certificates', [
      ...body(2 * edgeTls.certificatesMb),
      "content_by_lua_block { require('control').certificates() }",
    ]),
    "location = /answers { content_by_lua_block { require('control').answers() } }",
    "location = /mark { content_by_lua_block { require('control').mark() } }",
    'location = /health { return 204; }',
    'location / { return 404; }',
    // nginx knows a variable that is set anywhere, and it is empty before: no request has to come by.
    ...block(
      'location @declared',
      ofRequest.map(name => `set $${name} '';`),
    ),
  ])
}

/** What Lua sets for a request. */
const ofRequest = [
  ...['app_id', 'entered', 'refusal', 'member'],
  ...['cache_path', 'cache_version', 'cache_part', 'uncacheable', 'filling'],
]

/** Other statuses that this proxy may answer with; without one of our pages it would send its own, which names it. */
const ownRefusals = '401 403 408 411 412 415 416 421 500 507'

/**
 * An unreadable request line has no path, and without a path nginx cannot go to a named location: it would answer 500. nginx answers an
 * unknown transfer coding with 501 and another HTTP version with 505; for the client both are malformed requests like the others.
 * Headers that are too large (494) get the API's status for them.
 */
const malformed = (page: string, ...lines: string[]): string[] => [
  `error_page 400 ${malformedPath};`,
  `error_page 414 495 496 497 501 505 =400 ${malformedPath};`,
  `error_page 494 =431 ${malformedPath};`,
  ...block(`location = ${malformedPath}`, ['internal;', ...lines, `content_by_lua_block { ${page} }`]),
]

/** What each server of clients has. What the log says of a request that nothing changes is set, which takes less than a map does. */
function requestLines(options: EdgeConfigOptions, format: 'application' | 'surface'): string[] {
  return [
    `limit_conn per_address ${connectionLimit(options.settings.connectionsPerAddress * options.limitScale)};`,
    'set $log_wanted 1;',
    ...(format === 'application' ? ['set $cache_state dynamic;', 'set $edge_ms null;'] : []),
    logLine(options, format),
  ]
}

const logLine = ({ folder }: EdgeConfigOptions, format: string): string =>
  `access_log ${quotedNginx(folder, `/${logName}`)} ${format} if=$log_wanted;`

/** nginx accepts 1 to 65,535. */
function connectionLimit(connections: number): number {
  return Math.min(65_535, Math.max(1, Math.ceil(connections)))
}
