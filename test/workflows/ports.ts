const places = new Map<string, number>()

/** Distance between two ports of the same release. */
export const portStep = 10

/** Port of a release on scripted hosts, given its number of ports `before`: unique among the applications of a host. */
export function portOf(appId: string, release: number, before = 0): number {
  if (!places.has(appId)) places.set(appId, places.size)
  return 40_000 + 100 * (places.get(appId) as number) + portStep * before + release
}
