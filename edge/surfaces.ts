import type { Config } from '../policy/config.ts'
import type { EdgeSettings } from '../policy/edge/edge-settings.ts'

const surfaces = ['api', 'blob', 's3', 'files', 'public'] as const

/** The surfaces, by their names below the platform's domain. */
export type Surface = (typeof surfaces)[number]

/** The addresses of the API processes, one list of `address:port` per surface; several are balanced, a failed one is skipped. */
export type SurfaceTargets = Record<Surface, string[]>

/** The targets of API processes that listen on one address, each with its own ports. */
export function surfaceTargets(bind: string, processes: Config['ports'][]): SurfaceTargets {
  const address = bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind
  const host = address.includes(':') ? `[${address}]` : address
  const each = (name: keyof Config['ports']) => processes.map(ports => `${host}:${ports[name]}`)
  return { api: each('base'), blob: each('blob'), s3: each('s3'), files: each('files'), public: each('public') }
}

/** Host names of one surface; those of the S3 gateway include one for each bucket. */
export function namesOfSurface(surface: Surface, { domain, names }: Pick<EdgeSettings, 'domain' | 'names'>): string[] {
  const all = [...new Set([`${surface}.${domain}`, names[surface] ?? `${surface}.${domain}`])]
  return surface === 's3' ? all.flatMap(name => [name, `*.${name}`]) : all
}

/** Host names of all surfaces. */
export const listSurfaceNames = (settings: Pick<EdgeSettings, 'domain' | 'names'>): string[] =>
  surfaces.flatMap(surface => namesOfSurface(surface, settings))
