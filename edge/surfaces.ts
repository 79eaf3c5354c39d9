import type { Config } from '../policy/config.ts'

/** The surfaces, by their names below the platform's domain. */
export type Surface = 'api' | 'blob' | 's3' | 'files' | 'public'

/** The addresses of the API processes, one list of `address:port` per surface; several are balanced, a failed one is skipped. */
export type SurfaceTargets = Record<Surface, string[]>

/** The targets of API processes that listen on one address, each with its own ports. */
export function surfaceTargets(bind: string, processes: Config['ports'][]): SurfaceTargets {
  const address = bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind
  const host = address.includes(':') ? `[${address}]` : address
  const each = (name: keyof Config['ports']) => processes.map(ports => `${host}:${ports[name]}`)
  return { api: each('base'), blob: each('blob'), s3: each('s3'), files: each('files'), public: each('public') }
}
