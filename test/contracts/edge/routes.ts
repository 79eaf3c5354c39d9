import type { TestFn } from 'ava'
import { type Edge, NameRefused, type Route, RouteRefused, type ServedName } from '../../../activities/edge/port.ts'

/** The contract of every edge. `make` returns an edge whose table the tests may rewrite, one test at a time. */
export function edgeContract(test: TestFn, name: string, make: () => Promise<Edge>) {
  const route = (label: string, port: number): Route => ({
    host: `${label}.apps.localhost`,
    appId: '0123456789abcdef01234567',
    address: '127.0.0.1',
    port,
  })
  const table = async (edge: Edge) => (await edge.listRoutes()).sort((one, other) => (one.host < other.host ? -1 : 1))

  test.serial(`${name}: a route that was set is listed as it was given`, async t => {
    const edge = await make()
    await edge.syncRoutes([])
    await edge.setRoute(route('a', 1001))
    await edge.setRoute({ ...route('b', 1002), address: '::1' })
    t.deepEqual(await table(edge), [route('a', 1001), { ...route('b', 1002), address: '::1' }])
  })

  test.serial(`${name}: a route changes with its version alone, and loses it when it is set without one`, async t => {
    const edge = await make()
    await edge.syncRoutes([route('a', 1001)])
    for (const version of ['7.0', '7.1', `${'v'.repeat(62)}_-`]) {
      await edge.setRoute({ ...route('a', 1001), version })
      t.deepEqual(await table(edge), [{ ...route('a', 1001), version }])
    }
    await edge.setRoute(route('a', 1001))
    t.deepEqual(await table(edge), [route('a', 1001)])
  })

  test.serial(`${name}: a route changes with its account alone, and loses it when it is set without one`, async t => {
    const edge = await make()
    const versioned = { ...route('a', 1001), version: '7.0' }
    await edge.syncRoutes([versioned, { ...route('b', 1002), account: 'f'.repeat(64) }])
    for (const account of ['0', '0123456789ab']) {
      await edge.setRoute({ ...versioned, account })
      t.deepEqual(await table(edge), [
        { ...versioned, account },
        { ...route('b', 1002), account: 'f'.repeat(64) },
      ])
    }
    await edge.setRoute(versioned)
    await edge.setRoute(route('b', 1002))
    t.deepEqual(await table(edge), [versioned, route('b', 1002)])
    await edge.setRoute({ ...versioned, account: 'ab' })
    await edge.removeRoute(versioned.host, versioned)
    t.deepEqual(await table(edge), [route('b', 1002)])
  })

  test.serial(`${name}: setting again replaces the target and may be repeated`, async t => {
    const edge = await make()
    await edge.syncRoutes([route('a', 1001)])
    await edge.setRoute(route('a', 2001))
    await edge.setRoute(route('a', 2001))
    t.deepEqual(await table(edge), [route('a', 2001)])
  })

  test.serial(`${name}: removing deletes the route, and an unknown host is success`, async t => {
    const edge = await make()
    await edge.syncRoutes([route('a', 1001), route('b', 1002)])
    await edge.removeRoute('a.apps.localhost')
    await edge.removeRoute('a.apps.localhost')
    await edge.removeRoute('never was.apps.localhost')
    t.deepEqual(await table(edge), [route('b', 1002)])
  })

  test.serial(`${name}: a removal that names its route leaves every other one`, async t => {
    const edge = await make()
    const [a, b] = [route('a', 1001), route('b', 1002)]
    await edge.syncRoutes([a, b])
    await edge.removeRoute(a.host, { ...a, port: 1003 })
    await edge.removeRoute(a.host, { appId: 'another' })
    await edge.removeRoute('unknown.apps.localhost', a)
    t.deepEqual(await table(edge), [a, b])
    await edge.removeRoute(a.host, a)
    await edge.removeRoute(b.host, { appId: b.appId })
    t.deepEqual(await table(edge), [])
  })

  test.serial(`${name}: a sync makes the table equal to what it is given`, async t => {
    const edge = await make()
    await edge.syncRoutes([route('a', 1001), route('b', 1002)])
    await edge.syncRoutes([route('b', 2002), route('c', 1003)])
    t.deepEqual(await table(edge), [route('b', 2002), route('c', 1003)])
    await edge.syncRoutes([])
    t.deepEqual(await table(edge), [])
  })

  test.serial(`${name}: an invalid route is refused, and changes nothing`, async t => {
    const edge = await make()
    await edge.syncRoutes([route('a', 1001)])
    const hostile = [{ host: 'A.apps.localhost' }, { address: 'no-address' }, { port: 70_000 }, { appId: 'a b' }]
    const versions = [{ version: '' }, { version: '7 1' }, { version: '*' }, { version: 'v'.repeat(65) }]
    const accounts = [{ account: '' }, { account: 'a b' }, { account: 'AB' }, { account: 'f'.repeat(65) }]
    for (const odd of [...hostile, ...versions, ...accounts])
      await t.throwsAsync(edge.setRoute({ ...route('a', 2001), ...odd }), { instanceOf: RouteRefused })
    t.deepEqual(await table(edge), [route('a', 1001)])
  })

  test.serial(`${name}: concurrent changes of different hosts are all stored`, async t => {
    const edge = await make()
    await edge.syncRoutes([])
    const routes = Array.from({ length: 50 }, (_, index) => route(`n${String(index).padStart(2, '0')}`, 3000 + index))
    await Promise.all(routes.map(each => edge.setRoute(each)))
    t.deepEqual(await table(edge), routes)
  })

  test.serial(`${name}: the routes of some of many hosts are found`, async t => {
    const edge = await make()
    const routes = Array.from({ length: 100 }, (_, index) => route(`n${index}`, 3000 + index))
    await edge.syncRoutes(routes)
    const hosts = [...routes.slice(10, 80).map(({ host }) => host), 'none.apps.localhost', 'no name']
    const found = (await edge.findRoutes(hosts)).sort((one, other) => one.port - other.port)
    t.deepEqual(found, routes.slice(10, 80))
    t.deepEqual(await edge.findRoutes([]), [])
  })

  test.serial(`${name}: a mark lasts for this run, until the whole table is replaced`, async t => {
    const edge = await make()
    await edge.syncRoutes([])
    const { id, run, mark } = await edge.standing()
    t.truthy(id)
    t.is(mark, null)
    const text = '5b1c6b1e-0000-4000-8000-000000000000/1763900000.123/16385 742'
    await edge.setMark(run, text)
    await edge.setRoute(route('a', 1001))
    await edge.removeRoute('a.apps.localhost')
    t.like(await edge.standing(), { run, mark: text })
    await edge.setMark('f00d-0000', 'of another')
    t.like(await edge.standing(), { run, mark: text })
    await edge.syncRoutes([route('b', 1002)])
    t.like(await edge.standing(), { run, mark: null })
  })

  const custom = (label: string, members: string[] = ['a.apps.localhost']): ServedName => ({
    host: `${label}.example.org`,
    members,
  })
  const namesOf = async (edge: Edge) => (await edge.listNames()).sort((one, other) => (one.host < other.host ? -1 : 1))

  test.serial(
    `${name}: custom names are listed as they were given, replaced and removed, apart from routes`,
    async t => {
      const edge = await make()
      await edge.syncRoutes([route('a', 1001)])
      await edge.syncNames([])
      const most = custom(
        'b',
        Array.from({ length: 64 }, (_, n) => `m${n}.apps.localhost`),
      )
      const all = [custom('a'), most, { ...custom('c') }]
      for (const each of [...all, ...all]) await edge.setName(each)
      t.deepEqual(await namesOf(edge), all)
      await edge.setName(custom('b', ['b.apps.localhost', 'a.apps.localhost']))
      await edge.setName(custom('c'))
      await edge.setName(custom('m', ['a.apps.localhost@app!', 'b.apps.localhost!']))
      t.deepEqual(await namesOf(edge), [
        custom('a'),
        custom('b', ['b.apps.localhost', 'a.apps.localhost']),
        custom('c'),
        custom('m', ['a.apps.localhost@app!', 'b.apps.localhost!']),
      ])
      for (const host of ['a.example.org', 'a.example.org', 'never was.example.org']) await edge.removeName(host)
      await edge.syncNames([custom('c', ['c.apps.localhost']), custom('d')])
      t.deepEqual(await namesOf(edge), [custom('c', ['c.apps.localhost']), custom('d')])
      await edge.syncNames([])
      t.deepEqual(await namesOf(edge), [])
      t.deepEqual(await table(edge), [route('a', 1001)])
    },
  )

  test.serial(`${name}: an invalid name is refused, and changes nothing`, async t => {
    const edge = await make()
    await edge.syncNames([custom('a')])
    const long = `${'n'.repeat(64)}.`.repeat(4)
    const odd: Record<string, unknown>[] = [
      ...['A.example.org', '', 'a"b', 'a b', 'a\n.example.org', '*.example.org', long, '-a.org'].map(host => ({
        host,
      })),
      ...[[], ['b', 'B'], ['a"'], ['a', 'a'], [''], ['a,b'], ['a', 'a!'], ['a!!'], Array(65).fill('m')].map(
        members => ({ members }),
      ),
    ]
    for (const change of odd) {
      const refused = { ...custom('a', ['other.apps.localhost']), ...change }
      await t.throwsAsync(edge.setName(refused), { instanceOf: NameRefused }, JSON.stringify(change))
      await t.throwsAsync(edge.syncNames([custom('b'), refused]), { instanceOf: NameRefused })
    }
    t.deepEqual(await namesOf(edge), [custom('a')])
  })
}
