import { cacheSizes, proxyCache } from '../policy/edge/cache.ts'
import { clientScheme, type EdgeConfigOptions } from './edge-options.ts'
import { block, quotedNginx } from './nginx-text.ts'

const on = ({ settings }: EdgeConfigOptions): boolean => settings.cacheMb > 0

/** The caches of applications; none when they are off. */
export function cacheLines(options: EdgeConfigOptions): string[] {
  if (!on(options)) return []
  const { inactive, minFreeMb, parts } = proxyCache
  const { part, keysMb } = cacheSizes(options.settings.cacheMb)
  return [
    ...Array.from(
      { length: parts },
      (_, number) => `lua_shared_dict cacheable${number} 1m; lua_shared_dict caching${number} 256k;`,
    ),
    ...Array.from({ length: parts }, (_, number) => {
      const path = quotedNginx(options.folder, `/cache/${number}`)
      const bounds = `max_size=${part} min_free=${minFreeMb}m inactive=${inactive}`
      return `proxy_cache_path ${path} levels=1:2 use_temp_path=off keys_zone=part${number}:${keysMb}m ${bounds};`
    }),
  ]
}

/** Lua that starts the caches; none when they are off. */
export function cacheStart(options: EdgeConfigOptions): string[] {
  if (!on(options)) return []
  const { part, maxFile } = cacheSizes(options.settings.cacheMb)
  return [`require('cache').begin(${proxyCache.parts}, ${part}, ${maxFile})`]
}

/**
 * Where `cache.lua` sends a request whose path has given explicit freshness before; all others are neither buffered nor locked. Without
 * `proxy_cache_valid` nothing is stored that its application has not declared. What is too old is served only while the application
 * does not answer, or where the answer itself allows it (`stale-while-revalidate`).
 */
export function cachedLocation(options: EdgeConfigOptions, proxied: readonly string[]): string[] {
  if (!on(options)) return []
  return block('location @cached', [
    'recursive_error_pages on;',
    'proxy_cache $cache_part;',
    // The host as the application sees it: with another port it may answer with other links.
    `proxy_cache_key "$entered|$cache_version|${clientScheme(options.settings)}|$http_host|$request_method|$request_uri";`,
    'proxy_cache_convert_head off;',
    'proxy_no_cache $uncacheable;',
    'proxy_cache_use_stale error timeout;',
    'proxy_cache_background_update on;',
    'proxy_cache_revalidate on;',
    'proxy_cache_lock on;',
    `proxy_cache_lock_timeout ${proxyCache.lockSeconds}s;`,
    `proxy_cache_lock_age ${proxyCache.lockSeconds}s;`,
    'proxy_buffering on;',
    ...proxied,
  ])
}
