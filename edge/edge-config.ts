import { dirname } from 'node:path'
import { MiB } from '../lib/bytes.ts'
import { edgeTables } from '../policy/edge/tables.ts'
import { edgeTls } from '../policy/installation/edge-tls.ts'
import { applicationErrors } from '../policy/installation/process-logs.ts'
import { cacheLines, cacheStart } from './cache-lines.ts'
import { type EdgeConfigOptions, requestId, schemeTellers } from './edge-options.ts'
import { applicationServers, controlServer, surfaceServers } from './edge-servers.ts'
import { forwardedHeaders } from './forwarded-headers.ts'
import { errorsName, logFormats, logName } from './log-format.ts'
import { block, quotedNginx } from './nginx-text.ts'
import { tlsLines } from './tls-lines.ts'

/** The whole nginx.conf. Pure; throws an Error for paths that nginx cannot represent. */
export function edgeConfig(options: EdgeConfigOptions): string {
  const { settings, user, nginx, folder } = options
  const load = (name: string) => `load_module ${quotedNginx(`${nginx.modules}/${name}.so`)};`
  const lines = [
    load('ndk_http_module'),
    load('ngx_http_lua_module'),
    ...(nginx.brotli && settings.compression ? [load('ngx_http_brotli_filter_module')] : []),
    ...(user ? [`user ${user};`] : []),
    'daemon off;',
    `pid ${quotedNginx(`${folder}/nginx.pid`)};`,
    'error_log stderr warn;',
    'pcre_jit on;',
    `worker_processes ${settings.workers || 'auto'};`,
    'worker_rlimit_nofile 16384;',
    // When the proxy stops, streams and sockets that are still open then are closed.
    'worker_shutdown_timeout 8s;',
    'env TZ=UTC;',
    ...block('events', [`worker_connections ${options.workerConnections};`]),
    ...block('http', httpLines(options)),
  ]
  return `${lines.join('\n')}\n`
}

function httpLines(options: EdgeConfigOptions): string[] {
  return [
    ...luaLines(options),
    ...cacheLines(options),
    ...connectionLines(options),
    ...trustLines(options),
    ...tlsLines(options),
    ...proxyLines(options),
    `map $connection_requests $request_number { default "${requestId(options.run)}"; }`,
    ...logFormats(options),
    // Keeps open what the cache has answered with last.
    'open_file_cache max=8 inactive=60s;',
    'access_log off;',
    ...applicationServers(options),
    ...surfaceServers(options),
    ...controlServer(options.settings),
  ]
}

/** The tables of the proxy, in addition to the routes. */
export const tables = ['names', 'certificates', 'settings', 'pages', 'answers'] as const

/** The file of a table of the proxy, by its name. */
export const tableFile = ({ routesFile }: EdgeConfigOptions['settings'], name: (typeof tables)[number]): string =>
  `${dirname(routesFile)}/${name}.json`

function luaLines(options: EdgeConfigOptions): string[] {
  const { scripts, folder, settings, appsDomain } = options
  const logBytes = settings.logMb * MiB
  return [
    `lua_package_path ${quotedNginx(scripts, '/?.lua;;')};`,
    // About 100,000 routes; a full dictionary refuses new ones and never drops old ones.
    'lua_shared_dict routes 32m;',
    // As many custom names of some members.
    'lua_shared_dict names 32m;',
    `lua_shared_dict certificates ${edgeTls.certificatesMb}m;`,
    `lua_shared_dict settings ${edgeTables.settingsMb}m;`,
    `lua_shared_dict pages ${edgeTables.pagesMb}m;`,
    // The oldest counts make room for new ones.
    'lua_shared_dict address_counts 16m;',
    'lua_shared_dict answers 64k;',
    'lua_shared_dict journals 64k;',
    'lua_shared_dict connections 16m;',
    ...block('init_by_lua_block', [
      "require 'resty.core'",
      `require('journal').identify(${quotedNginx(options.id)})`,
      `require('routes').table:load(${quotedNginx(settings.routesFile)})`,
      `require('names').table:load(${quotedNginx(tableFile(settings, 'names'))})`,
      `require('certificates').table:load(${quotedNginx(tableFile(settings, 'certificates'))})`,
      `require('certificates').remember(${edgeTls.parsedPerWorker})`,
      `require('settings').table:load(${quotedNginx(tableFile(settings, 'settings'))})`,
      `require('settings').pages:load(${quotedNginx(tableFile(settings, 'pages'))})`,
      `require('well_known').table:load(${quotedNginx(tableFile(settings, 'answers'))})`,
      `require('well_known').keep(${quotedNginx(appsDomain)})`,
      ...(settings.tls ? [`require('router').redirect_to(${settings.tls.publicPort})`] : []),
      // Not by `require` in each phase of each request: all of them would then be compiled as what follows that one function.
      "router, departures = require 'router', require 'departures'",
      "require 'control'; require 'pages'; require 'access_log'; require 'error_file'; require 'lifeline'",
    ]),
    ...block('init_worker_by_lua_block', [
      "require('changes').begin()",
      "require('lifeline').begin()",
      "require('connections').begin()",
      ...cacheStart(options),
      `require('access_log').watch(${quotedNginx(folder)}, '${logName}', ${settings.logHours}, ${logBytes})`,
      `require('error_file').watch(${quotedNginx(folder)}, '${errorsName}', ${applicationErrors.bytes})`,
    ]),
    "exit_worker_by_lua_block { require('lifeline').leave() }",
  ]
}

/** Whether a client may have an IPv6 address, in which case its network is not the whole of it. */
const hasWideAddresses = ({ bind, trustedProxies }: EdgeConfigOptions['settings']): boolean =>
  bind.includes(':') || trustedProxies.length > 0

function connectionLines({ folder, settings }: EdgeConfigOptions): string[] {
  const clientNetwork = hasWideAddresses(settings) ? '$client_network' : '$binary_remote_addr'
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return [
    ...temporary.map(name => `${name}_temp_path ${quotedNginx(`${folder}/temporary/${name}`)};`),
    'server_tokens off;',
    // Does not disclose which server and version this is.
    "header_filter_by_lua_block { ngx.header['Server'] = nil }",
    'default_type application/octet-stream;',
    'tcp_nodelay on;',
    'merge_slashes off;',
    'absolute_redirect off;',
    'client_header_timeout 10s;',
    'client_body_timeout 30s;',
    'send_timeout 30s;',
    'keepalive_timeout 65s;',
    'keepalive_requests 10000;',
    'reset_timedout_connection on;',
    // What a request needs, in one piece of memory: with nginx's 4 KB it allocates a second one.
    'request_pool_size 8k;',
    // Headers of 16 KB in all, as at the API. Unusual names reach Lua, which drops them for applications (S3 metadata needs them).
    'client_header_buffer_size 2k;',
    'large_client_header_buffers 2 8k;',
    'underscores_in_headers on;',
    'ignore_invalid_headers off;',
    'server_names_hash_bucket_size 256;',
    'uninitialized_variable_warn off;',
    ...block('map $binary_remote_addr $client_network', [
      // A client with an IPv6 address has its whole /64: the first 8 of its 16 bytes. One with an IPv4 address has that also on a socket of
      // both families, where all of them have the same first 8.
      ...(hasWideAddresses(settings)
        ? ['"~(?s)^(?:\\x00{10}\\xff\\xff(?<mapped>.{4})|(?<network>.{8}).{8})$" $mapped$network;']
        : []),
      'default $binary_remote_addr;',
    ]),
    `limit_conn_zone ${clientNetwork} zone=per_address:10m;`,
    'limit_conn_status 429;',
    'limit_conn_log_level info;',
  ]
}

function trustLines({ settings }: EdgeConfigOptions): string[] {
  const { trustedProxies: trusted, proxyProtocol, tls } = settings
  for (const network of trusted)
    if (!/^[0-9a-fA-F.:]+(\/\d+)?$/.test(network))
      throw new Error(`EDGE_TRUSTED_PROXIES holds "${network}"; it must hold addresses and networks.`)
  // What passes connections on unread is no end of TLS: with it the client's own address counts, and its own headers are no evidence.
  const [terminator, ends] = tls && proxyProtocol ? ['$remote_addr', []] : ['$realip_remote_addr', trusted]
  const tellers = schemeTellers(settings)
  return [
    ...trusted.map(network => `set_real_ip_from ${network};`),
    ...(trusted.length ? [`real_ip_header ${proxyProtocol ? 'proxy_protocol' : 'X-Forwarded-For'};`] : []),
    ...(trusted.length ? ['real_ip_recursive on;'] : []),
    // Looked at for every request, so the addresses are only where one of them is trusted.
    ...(tellers.length
      ? [
          ...block('geo $realip_remote_addr $from_trusted', ['default 0;', ...tellers.map(network => `${network} 1;`)]),
          'map "$from_trusted:$http_x_forwarded_proto" $client_scheme { "1:https" https; default $scheme; }',
        ]
      : ['map $scheme $client_scheme { default $scheme; }']),
    ...block(`geo ${terminator} $in_the_clear`, [
      'default 1;',
      ...[...new Set(['127.0.0.0/8', '::1', ...ends])].map(network => `${network} 0;`),
    ]),
  ]
}

function proxyLines(options: EdgeConfigOptions): string[] {
  return [
    // Only WebSocket upgrades are passed on: an `Upgrade: h2c` would open a tunnel around every rule here.
    // HTTP/2 has no upgrades: an application would answer with bytes that are no frames.
    // A map compares without case, and a request without the header is looked at no further.
    'map $http_upgrade $upgrade_to { websocket $websocket; default ""; }',
    'map $server_protocol $websocket { HTTP/1.1 websocket; default ""; }',
    'map $upgrade_to $connection_to { websocket upgrade; default ""; }',
    'proxy_http_version 1.1;',
    'proxy_request_buffering off;',
    'proxy_buffering off;',
    // Upstreams are untrusted programs: these headers would enable buffering into files on our disk, or redirect the request internally.
    'proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;',
    'proxy_max_temp_file_size 0;',
    'proxy_buffer_size 16k;',
    'proxy_buffers 4 16k;',
    'proxy_redirect off;',
    'proxy_socket_keepalive on;',
    'proxy_connect_timeout 3s;',
    'proxy_send_timeout 60s;',
    // A request that may have had an effect is never sent twice: only failed connections and lost idempotent requests are retried.
    'proxy_next_upstream error;',
    ...forwardedHeaders(options),
  ]
}
