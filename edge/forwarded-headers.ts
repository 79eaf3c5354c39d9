import { clientScheme, type EdgeConfigOptions, requestId } from './edge-options.ts'

/** What an application or a surface learns of a request, in place of what its client has claimed. */
export function forwardedHeaders(options: EdgeConfigOptions): string[] {
  return lines({ ...headersOf(options), Upgrade: '$upgrade_to', Connection: '$connection_to' })
}

/** The same for a request by HTTP/2, which has no upgrades, so none is looked for. */
export function forwardedByStream(options: EdgeConfigOptions): string[] {
  return lines({ ...headersOf(options), Upgrade: '""', Connection: '""' })
}

const headersOf = ({ settings, run }: EdgeConfigOptions) => ({
  Host: '$http_host',
  'X-Request-Id': `"${requestId(run)}"`,
  'X-Real-IP': '$remote_addr',
  'X-Forwarded-For': '$remote_addr',
  'X-Forwarded-Proto': clientScheme(settings),
  'X-Forwarded-Host': '$http_host',
  'X-Forwarded-Port': '""',
  'X-Forwarded-Prefix': '""',
  Forwarded: '""',
  Proxy: '""',
})

const lines = (headers: Record<string, string>): string[] =>
  Object.entries(headers).map(([name, value]) => `proxy_set_header ${name} ${value};`)
