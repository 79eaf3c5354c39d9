/** What a version counts: the release that serves, and the purges of its application. */
interface Served {
  release: number
  cacheVersion: number
}

/** The version of a route, a part of the key of all that the proxy caches: another release, or another purge, finds none of it. */
export const routeVersion = ({ release, cacheVersion }: Served): string => `${release}.${cacheVersion}`

/** The version of the same release after a purge. One that this code did not build is replaced by that of `served`. */
export function versionAfterPurge(version: string | undefined, served: Served): string {
  const [, release] = /^(\d+)\.\d+$/.exec(version ?? '') ?? []
  return routeVersion({ ...served, release: Number(release ?? served.release) })
}
