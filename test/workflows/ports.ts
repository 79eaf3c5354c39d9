const places = new Map<string, number>()

/** The next port of the same release is so much higher. */
export const portStep = 10

/** The port that scripted hosts give to a release that has had so many `before`: no two applications of one host have the same. */
export function portOf(appId: string, release: number, before = 0): number {
  if (!places.has(appId)) places.set(appId, places.size)
  return 40_000 + 100 * (places.get(appId) as number) + portStep * before + release
}
