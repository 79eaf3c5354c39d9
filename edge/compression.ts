import type { EdgeConfigOptions } from './edge-options.ts'

const minBytes = 1024

/** Types that shrink. `text/html` is always among them; event streams never are. */
const types = [
  ...['text/css', 'text/plain', 'text/javascript', 'text/markdown', 'text/csv', 'text/xml', 'text/vtt'],
  ...['application/javascript', 'application/json', 'application/ld+json', 'application/manifest+json'],
  ...['application/xml', 'application/rss+xml', 'application/atom+xml', 'application/xhtml+xml', 'application/wasm'],
  ...['image/svg+xml', 'font/ttf', 'font/otf'],
].join(' ')

/**
 * Compresses what applications answer as text: the platform's surfaces serve bytes that a client has stored, signed or asked for in
 * ranges. What has a `Content-Encoding` is passed on as it is. What an application sends immediately is flushed immediately.
 */
export function compressionLines({ settings, nginx }: EdgeConfigOptions): string[] {
  if (!settings.compression) return []
  return [
    'gzip on;',
    'gzip_vary on;',
    'gzip_proxied any;',
    'gzip_comp_level 4;',
    `gzip_min_length ${minBytes};`,
    `gzip_types ${types};`,
    // 128 KB for each open answer instead of 256: their number is the visitors' choice.
    'gzip_window 16k;',
    'gzip_hash 32k;',
    ...(nginx.brotli
      ? [
          'brotli on;',
          'brotli_comp_level 4;',
          `brotli_min_length ${minBytes};`,
          `brotli_types ${types};`,
          'brotli_window 16k;',
        ]
      : []),
  ]
}
