import anyTest, { type TestFn } from 'ava'
import { nginxEdge } from '../../../activities/edge/nginx.ts'
import { edgeCertificatesContract } from '../../contracts/edge/certificates.ts'
import { edgeContract } from '../../contracts/edge/routes.ts'
import { edgeSettingsContract } from '../../contracts/edge/settings.ts'
import { fakeEdge } from '../../kit/fakes/edge.ts'
import { startProxy, type TestProxy } from '../../kit/servers/proxy.ts'

const test = anyTest as TestFn
let proxy: TestProxy

test.before(async () => {
  proxy = await startProxy()
})
test.after.always(() => proxy?.stop())

const [fake, nginx] = [fakeEdge(), async () => proxy.edge]
edgeContract(test, 'nginx', nginx)
edgeContract(test, 'fake', async () => fake)
edgeCertificatesContract(test, 'nginx', nginx)
edgeCertificatesContract(test, 'fake', async () => fake)
edgeSettingsContract(test, 'nginx', nginx)
edgeSettingsContract(test, 'fake', async () => fake)

const route = { host: 'a.apps.localhost', appId: 'a1', address: '127.0.0.1', port: 80 }

for (const [name, wrong] of Object.entries({
  'a host with a line break': { ...route, host: 'a\n{"host":"b"}' },
  'a host in upper case': { ...route, host: 'A.apps.localhost' },
  'a host name as address': { ...route, address: 'example.com' },
  'a negative port': { ...route, port: -1 },
  'an application id with a quote': { ...route, appId: 'a"' },
}))
  test(`${name} is refused before it reaches the proxy`, async t => {
    await t.throwsAsync(nginxEdge('/nowhere.sock').setRoute(wrong), { message: /^(Not an? |A route needs)/ })
  })

test('an unreachable proxy is reported as such', async t => {
  await t.throwsAsync(nginxEdge('/nowhere.sock').setRoute(route), { message: /control socket failed/ })
})
