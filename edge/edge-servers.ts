import type { EdgeSettings } from '../policy/config.ts'
import { applicationRoom } from '../policy/proxy-connections.ts'
import { cachedLocation } from './cache-lines.ts'
import { acceptsHttpsOnly, type EdgeConfigOptions } from './edge-options.ts'
import { block, malformedPath, quoted } from './nginx-text.ts'
import type { Surface } from './surfaces.ts'

/**
 * Closes idle connections to upstreams before the upstream does: Node's default is 5 s, and a request sent into a closing
 * connection is lost.
 */
const keepAlive = ['keepalive_timeout 4s;', 'keepalive_requests 10000;']

const proxied = ['proxy_read_timeout 120s;', 'proxy_pass http://applications;']

/** The default server: a host name that is not the platform's own belongs to an application, or to none. */
export function applicationServer(options: EdgeConfigOptions): string[] {
  const { settings, workerConnections } = options
  const room = applicationRoom(workerConnections)
  return [
    ...block('upstream applications', [
      'server 0.0.0.1;',
      "balancer_by_lua_block { require('router').balance() }",
      'keepalive 512;',
      ...keepAlive,
    ]),
    ...block('server', [
      `${listen(settings)} default_server${settings.bind.includes(':') ? ' ipv6only=off' : ''};`,
      'server_name _;',
      ...logLines(options, 'application'),
      ...httpsOnly(options),
      `client_max_body_size ${settings.appBodyMb}m;`,
      `error_page ${ownRefusals} 404 405 413 429 503 504 @page;`,
      'error_page 502 = @again;',
      ...malformed("require('pages').application()"),
      "header_filter_by_lua_block { require('router').answered() }",
      "log_by_lua_block { require('router').leave() }",
      ...block('location /', [
        // In the location and not in the server: an internal redirect to one of our pages sets the server's variables again.
        "set $entered '';",
        "set $app_full '';",
        "set $member '';",
        "set $cache_path '';",
        "set $cache_version '';",
        "set $cache_part '';",
        "set $uncacheable '';",
        "set $filling '';",
        `access_by_lua_block { require('router').admit(${Math.max(1, settings.connectionsPerApp)}, ${room}) }`,
        'recursive_error_pages on;', // what fails in @again has its page too
        ...proxied,
      ]),
      ...cachedLocation(options, proxied),
      // No port of a host accepts connections for 100 to 200 ms while its engine starts and rewrites its firewall rules.
      ...block('location @again', [
        "access_by_lua_block { require('router').again() }",
        'error_page 500 502 504 @page;',
        ...proxied,
      ]),
      "location @page { content_by_lua_block { require('pages').application() } }",
    ]),
  ]
}

/** One server per surface of the platform. The API itself limits bodies, with a code for each case. */
export function surfaceServers(options: EdgeConfigOptions): string[] {
  const { settings, targets } = options
  return (Object.entries(targets) as [Surface, string[]][]).flatMap(([surface, addresses]) => [
    ...block(`upstream surface_${surface}`, [
      ...addresses.map(address => `server ${address} max_fails=1 fail_timeout=1s;`),
      'keepalive 64;',
      ...keepAlive,
    ]),
    ...block('server', [
      `${listen(settings)};`,
      `server_name ${namesOf(surface, settings).join(' ')};`,
      // The error log quotes the request with its query, which may contain a signature or a token; the access log has the status of each try.
      'error_log stderr alert;',
      ...logLines(options, 'surface'),
      ...httpsOnly(options),
      'client_max_body_size 0;',
      `error_page ${ownRefusals} 404 405 413 429 503 504 @failed;`,
      'error_page 502 =503 @failed;',
      ...malformed(`require('pages').surface('${surface}')`),
      ...block('location /', [
        "access_by_lua_block { require('router').admit_surface() }",
        'proxy_read_timeout 300s;',
        `proxy_pass http://surface_${surface};`,
      ]),
      `location @failed { content_by_lua_block { require('pages').surface('${surface}') } }`,
    ]),
  ])
}

/** Reads and changes routes. The socket's folder is closed to other users. */
export function controlServer(settings: EdgeSettings): string[] {
  return block('server', [
    `listen ${quoted(`unix:${settings.controlSocket}`)};`,
    'client_max_body_size 32m;',
    'client_body_buffer_size 32m;',
    "location = /routes { content_by_lua_block { require('control').routes() } }",
    "location = /names { content_by_lua_block { require('control').names() } }",
    "location = /mark { content_by_lua_block { require('control').mark() } }",
    'location = /health { return 204; }',
    'location / { return 404; }',
  ])
}

/** Other statuses that nginx may answer with; without a page of ours it would send its own, which names it. */
const ownRefusals = '401 403 408 411 412 415 416 500 507'

/**
 * An unreadable request line has no path, and without a path nginx cannot go to a named location: it would answer 500. nginx answers an
 * unknown transfer coding with 501 and another HTTP version with 505; for the client both are malformed requests like the others.
 * Headers that are too large (494) get the API's status for them.
 */
const malformed = (page: string): string[] => [
  `error_page 400 ${malformedPath};`,
  `error_page 414 421 495 496 497 501 505 =400 ${malformedPath};`,
  `error_page 494 =431 ${malformedPath};`,
  `location = ${malformedPath} { internal; content_by_lua_block { ${page} } }`,
]

/** Not redirected: a client that sends its key over plain HTTP must fail visibly, and not continue to do so. */
const httpsOnly = (options: EdgeConfigOptions): string[] =>
  acceptsHttpsOnly(options) ? ['if ($refused_in_the_clear) { return 400; }'] : []

function namesOf(surface: Surface, { domain, names }: EdgeSettings): string[] {
  const all = [...new Set([`${surface}.${domain}`, names[surface] ?? `${surface}.${domain}`])]
  return surface === 's3' ? all.flatMap(name => [name, `*.${name}`]) : all
}

function listen({ bind, port }: EdgeSettings): string {
  return bind.includes(':') ? `listen [${bind}]:${port}` : `listen ${bind}:${port}`
}

function logLines({ folder }: EdgeConfigOptions, format: 'application' | 'surface'): string[] {
  return [
    // nginx writes a log with variables in its name only while its root folder exists.
    `root ${quoted(`${folder}/access`)};`,
    "set $app_id '';",
    "set $log_stopped '';",
    "set $edge_ms '';",
    `access_log ${quoted(`${folder}/access`, '/access-$log_hour.log')} ${format} if=$log_wanted;`,
  ]
}
