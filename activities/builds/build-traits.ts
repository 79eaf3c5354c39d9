import type { HostTraits } from '../containers/spec.ts'
import type { AppHostOptions } from '../hosts/app-host-options.ts'

/** The traits of a host for a build that begins now: with its current bundle of certificate authorities, and its proxies if they have an address. */
export async function buildTraits({ traits, authorities, proxies }: AppHostOptions): Promise<HostTraits> {
  const [caBundle, buildProxy] = await Promise.all([
    authorities ? authorities.bundle() : traits.caBundle,
    proxies ? proxies.forBuilds() : traits.buildProxy,
  ])
  return { ...traits, caBundle, buildProxy }
}
