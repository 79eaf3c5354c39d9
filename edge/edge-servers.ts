import type { EdgeSettings } from '../policy/config.ts'
import { applicationRoom } from '../policy/proxy-connections.ts'
import { type EdgeConfigOptions, takesHttpsOnly } from './edge-options.ts'
import { block, malformedPath, quoted } from './nginx-text.ts'
import type { Surface } from './surfaces.ts'

/**
 * Idle connections to upstreams are closed before the upstream closes them: Node's default is 5 s, and a request sent
 * into a closing connection is lost.
 */
const keepAlive = ['keepalive_timeout 4s;', 'keepalive_requests 10000;']

/** The default server: every host name that is not the platform's own belongs to an application or to nobody. */
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
      `error_page ${ownRefusals} 404 405 413 429 502 503 504 @page;`,
      ...malformed("require('pages').application()"),
      "log_by_lua_block { require('router').leave() }",
      ...block('location /', [
        // Here and not for the server: a redirect to one of our pages sets those of the server anew.
        "set $entered '';",
        "set $app_full '';",
        `access_by_lua_block { require('router').admit(${Math.max(1, settings.connectionsPerApp)}, ${room}) }`,
        'proxy_read_timeout 120s;',
        'proxy_pass http://applications;',
      ]),
      "location @page { content_by_lua_block { require('pages').application() } }",
    ]),
  ]
}

/** One server per surface of the platform. Bodies are limited by the API itself, which has a code for each case. */
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
      // Its lines quote the request with its query, which may be a signature or a token; the access log has the status of each try.
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

/** Routes are read and changed here. The socket's folder is closed to other users. */
export function controlServer(settings: EdgeSettings): string[] {
  return block('server', [
    `listen ${quoted(`unix:${settings.controlSocket}`)};`,
    'client_max_body_size 32m;',
    'client_body_buffer_size 32m;',
    "location = /routes { content_by_lua_block { require('control').routes() } }",
    "location = /mark { content_by_lua_block { require('control').mark() } }",
    'location = /health { return 204; }',
    'location / { return 404; }',
  ])
}

/** What else nginx may come to say by itself; without a page it would be one that names it. */
const ownRefusals = '401 403 408 411 412 415 416 500 507'

/**
 * A request line that cannot be read has no path, and without one nginx cannot be sent to a named location: it would answer 500. An
 * unknown transfer coding is nginx's 501, and another version of HTTP its 505; for the client they are malformed requests like the
 * others. Headers that are too large (494) are called as the API calls them.
 */
const malformed = (page: string): string[] => [
  `error_page 400 ${malformedPath};`,
  `error_page 414 421 495 496 497 501 505 =400 ${malformedPath};`,
  `error_page 494 =431 ${malformedPath};`,
  `location = ${malformedPath} { internal; content_by_lua_block { ${page} } }`,
]

/** Not redirected: a client that sends its key by plain http has to fail where that is seen, and not go on doing it. */
const httpsOnly = (options: EdgeConfigOptions): string[] =>
  takesHttpsOnly(options) ? ['if ($refused_in_the_clear) { return 400; }'] : []

function namesOf(surface: Surface, { domain, names }: EdgeSettings): string[] {
  const all = [...new Set([`${surface}.${domain}`, names[surface] ?? `${surface}.${domain}`])]
  return surface === 's3' ? all.flatMap(name => [name, `*.${name}`]) : all
}

function listen({ bind, port }: EdgeSettings): string {
  return bind.includes(':') ? `listen [${bind}]:${port}` : `listen ${bind}:${port}`
}

function logLines({ folder }: EdgeConfigOptions, format: 'application' | 'surface'): string[] {
  return [
    // nginx writes a log of changing name only while its root folder is there.
    `root ${quoted(`${folder}/access`)};`,
    "set $app_id '';",
    "set $log_stopped '';",
    `access_log ${quoted(`${folder}/access`, '/access-$log_hour.log')} ${format} if=$log_wanted;`,
  ]
}
