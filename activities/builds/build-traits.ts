import type { AppHostOptions } from '../app-host-options.ts'
import type { HostTraits } from '../containers/spec.ts'

/** The traits of a host for a build that begins now: its bundle of certificate authorities is made again if their sources have changed. */
export async function buildTraits({ traits, authorities }: AppHostOptions): Promise<HostTraits> {
  return authorities ? { ...traits, caBundle: await authorities.bundle() } : traits
}
