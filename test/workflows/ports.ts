const places = new Map<string, number>()

/**
 * The port that scripted hosts give to a release: no two applications of one host have the same. Another one once so many containers
 * of the release were there `before`.
 */
export function portOf(appId: string, release: number, before = 0): number {
  if (!places.has(appId)) places.set(appId, places.size)
  return 40_000 + 100 * (places.get(appId) as number) + 10 * before + release
}
