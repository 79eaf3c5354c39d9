import type { TestFn } from 'ava'
import { type Edge, type ServedSettings, SettingsRefused } from '../../../activities/edge/port.ts'

/** Settings of an application that restrict nothing. */
export const unset: ServedSettings = {
  ...{ host: 'a.apps.localhost', appId: 'a1', version: '1' },
  ...{ minTls: '1.2', hsts: null, requestsPerMinute: null, blockedNetworks: [], maintenance: false },
  pages: { error: null, maintenance: null },
}

/** The contract of the settings of every edge. */
export function edgeSettingsContract(test: TestFn, name: string, make: () => Promise<Edge>) {
  const table = async (edge: Edge, hosts?: string[]) =>
    (await edge.listSettings(hosts)).map(({ host, version }) => `${host} ${version}`).sort()
  const at = (label: string, more: Partial<ServedSettings> = {}): ServedSettings => ({
    ...unset,
    ...{ host: `${label}.apps.localhost`, appId: label },
    ...more,
  })
  async function empty(): Promise<Edge> {
    const edge = await make()
    for (const { host } of await edge.listSettings()) await edge.removeSettings(host)
    return edge
  }

  test.serial(`${name}: settings are listed by host and version, replaced and removed`, async t => {
    const edge = await empty()
    const large = {
      ...{ minTls: '1.3' as const, hsts: 'max-age=31536000; includeSubDomains', requestsPerMinute: 1_000_000 },
      blockedNetworks: Array.from({ length: 100 }, (_, n) => (n % 2 ? `2001:db8:${n}::/48` : `203.0.113.${n}`)),
      ...{ maintenance: true, pages: { error: '<p>"ä"\n</p>'.repeat(1000), maintenance: '\0\\"' } },
    }
    await edge.setSettings(at('a'))
    await edge.setSettings(at('b', large))
    await edge.setSettings(at('a', { ...large, version: '2' }))
    t.deepEqual(await table(edge), ['a.apps.localhost 2', 'b.apps.localhost 1'])
    t.deepEqual(await table(edge, ['b.apps.localhost', 'c.apps.localhost', 'never was']), ['b.apps.localhost 1'])
    t.deepEqual(await table(edge, []), [])
    for (const host of ['a.apps.localhost', 'a.apps.localhost', 'never was']) await edge.removeSettings(host)
    t.deepEqual(await table(edge), ['b.apps.localhost 1'])
  })

  test.serial(`${name}: invalid settings are refused, and change nothing`, async t => {
    const edge = await empty()
    await edge.setSettings(at('a'))
    const odd: Record<string, unknown>[] = [
      ...['A.localhost', '', 'a"b', 'a\nb', '*.localhost'].map(host => ({ host })),
      ...['', 'a"', 'a b'].map(appId => ({ appId })),
      ...['', 'a"', 'v'.repeat(65)].map(version => ({ version })),
      ...['', 'max-age=-1', 'max-age=1"', 'max-age=1; preload\n'].map(hsts => ({ hsts })),
      ...[0, -1, 1.5, Number.NaN].map(requestsPerMinute => ({ requestsPerMinute })),
      ...['', 'x', '10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/8/8', '10.0.0.0/-1'].map(network => ({
        blockedNetworks: ['10.0.0.1', network],
      })),
    ]
    for (const change of odd)
      await t.throwsAsync(
        edge.setSettings(at('a', { version: '2', ...change })),
        { instanceOf: SettingsRefused },
        JSON.stringify(change),
      )
    t.deepEqual(await table(edge), ['a.apps.localhost 1'])
  })
}
