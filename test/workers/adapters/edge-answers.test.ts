import test from 'ava'
import { unusedPort } from '../../../cli/installation/ports.ts'
import { edgeAnswers } from '../../../workers/adapters/edge-answers.ts'
import { startProxy } from '../../kit/servers/proxy.ts'

test('the proxy is checked with a visitor’s request, and silence is an error', async t => {
  const proxy = await startProxy()
  t.teardown(() => proxy.stop())
  await t.notThrowsAsync(edgeAnswers(proxy.config.edge))
  await t.throwsAsync(edgeAnswers({ bind: '127.0.0.1', port: await unusedPort(), proxyProtocol: false }))
})
