import test from 'ava'
import { pause } from '../../../lib/async/loop.ts'
import { testDomainPlatform } from '../../kit/platform/domain-platform.ts'
import { nodeProgram } from '../../kit/programs.ts'
import { askHttps } from '../../kit/servers/https.ts'

// The second host is another machine to the proxy: its applications are reached at an address of its own.
const second = '127.0.0.77'
const memory = { HOST_MEMORY_MB: '1024' }
const stage = testDomainPlatform({ hosts: { a: memory, b: { ...memory, HOST_ADDRESS: second } } })

const name = 'group.berth.dev'

test.serial(
  'a name leads to containers on two hosts; one that dies under load loses no GET, and gets none',
  async t => {
    t.timeout(240_000)
    const { platform, dns, pebble } = await stage()
    const { api, base, until } = platform
    const ana = await api.makeUser()
    const as = api.as(ana)
    const apps = [
      await platform.deploy(ana, nodeProgram('one'), { MEMORY: '512' }),
      await platform.deploy(ana, nodeProgram('two'), { MEMORY: '512' }),
    ]
    const rows = await Promise.all(apps.map(({ id }) => platform.row(id)))
    t.deepEqual(rows.map(row => row!.host_id).sort(), [platform.hostId('a'), platform.hostId('b')])

    for (const { id } of apps)
      t.is((await as.post(`/v2/apps/${id}/network/custom`, JSON.stringify({ custom: name }))).status, 200)
    const records = async () => {
      api.services.dnsRecords.clear()
      return (await as.get(`/v2/apps/${apps[0]!.id}/network/dns`)).body.response as Record<string, string>[]
    }
    const cname = (await records()).find(record => record.type === 'cname' && !record.name!.startsWith('_'))!
    dns.set(cname.value!, 'A', '127.0.0.1')
    dns.set(cname.name!, 'CNAME', cname.value!)
    const isActive = async () =>
      (await records()).some(record => record.name === cname.name && record.status === 'active')
    await until(isActive, 60, 'the name is active')

    const root = await pebble.root()
    const get = async () => {
      const { status, body } = await askHttps(base.proxy.tlsPort, name, root).catch(error => ({
        status: 0,
        body: error,
      }))
      return `${status} ${body}`
    }
    const answers = async (count: number) => [...new Set(await Promise.all(Array.from({ length: count }, get)))].sort()
    t.deepEqual(await answers(20), ['200 one', '200 two'])

    const dying = rows.find(row => row!.host_id === platform.hostId('b'))!
    const survivor = rows[0] === dying ? '200 two' : '200 one'
    const seen = new Set<string>()
    let done = false
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        for (; !done; await pause(5)) seen.add(await get())
      }),
    )
    await until(async () => seen.size === 2, 20, 'both answer')
    await platform.hosts.get('b')!.parts.engine.stop(dying.container_id!, 0)
    await until(async () => (await platform.row(dying.id))?.status === 'exited', 60, 'its end is recorded')
    done = true
    await load
    t.deepEqual([...seen].sort(), ['200 one', '200 two'])
    await until(async () => (await answers(10)).length === 1, 20, 'its route is removed')
    t.deepEqual(await answers(10), [survivor])

    t.is((await as.post(`/v2/apps/${dying.id}/start`)).status, 200)
    await until(async () => (await answers(10)).length === 2, 20, 'it is a member again')
  },
)
