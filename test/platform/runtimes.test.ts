import test from 'ava'
import { WebSocket } from 'ws'
import { testPlatform } from '../kit/platform/platform.ts'
import { echoProgram, nodeProgram, pythonProgram, staticProgram, typescriptProgram } from '../kit/programs.ts'

const started = testPlatform()

const cases = {
  JavaScript: [nodeProgram, null],
  'JavaScript with a package of the registry': [echoProgram, /added 1 package/],
  TypeScript: [typescriptProgram, null],
  'Python with a package of the registry': [pythonProgram, /six/],
  'a static site': [staticProgram, null],
} as const

for (const [name, [program, installed]] of Object.entries(cases)) {
  test.serial(`an uploaded zip answers through the proxy: ${name}`, async t => {
    t.timeout(120_000)
    const platform = await started
    const user = await platform.api.makeUser()
    const app = await platform.deploy(user, program(`hello from ${name}`))
    t.like(app.operation, { state: 'success', code: null })
    t.is((await platform.page(app.domain)).body, `hello from ${name}`)
    const deployment = await platform.db('deployments').where({ app_id: app.id }).first()
    t.is(deployment.state, 'success')
    if (!installed) return
    const output = await platform.db('deployment_logs').where({ deployment_id: deployment.id }).orderBy('seq')
    t.regex(output.map(row => row.text).join(''), installed)
    if (program !== echoProgram) return
    const socket = new WebSocket(`ws://127.0.0.1:${platform.base.proxy.port}/`, { headers: { host: app.domain } })
    const echo = await new Promise((resolve, reject) => {
      socket.once('open', () => socket.send('as it went'))
      socket.once('message', data => resolve(data.toString()))
      socket.once('error', reject)
    })
    socket.close()
    t.is(echo, 'as it went')
  })
}
