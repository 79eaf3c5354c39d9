import test from 'ava'
import { comesTrue } from '../kit/comes-true.ts'
import { packageRegistry } from '../kit/hosts/package-registry.ts'
import { logSink } from '../kit/log-sink.ts'
import { testPlatform } from '../kit/platform/platform.ts'
import type { Program } from '../kit/programs.ts'

const registry = await packageRegistry()
test.after.always('close the registry', () => registry.close())
const settings = { PACKAGE_CACHE_NPM: registry.npm, PACKAGE_CACHE_PIP: registry.pip, INSTALL_CACHE_MB: '0' }
const started = testPlatform({ log: logSink().log, settings })

const program: Program = {
  main: 'index.js',
  files: {
    'package.json': '{"dependencies":{"tiny":"^1.0.0"}}',
    'index.js': `const { version } = require('tiny/package.json')
require('node:http').createServer((request, answer) => answer.end(version)).listen(process.env.PORT)`,
  },
}

test.serial('applications of two accounts get a package that their host has downloaded once', async t => {
  t.timeout(170_000)
  const platform = await started
  const { path } = registry.publish('tiny', '1.0.0')
  for (const user of [await platform.api.makeUser(), await platform.api.makeUser()]) {
    const app = await platform.deploy(user, program)
    t.is((await platform.page(app.domain)).body, '1.0.0')
  }
  t.is(registry.count(path), 1)
  const fact = async () => (await platform.db('hosts').first()).builds.packages
  await comesTrue(async () => (await fact()) !== undefined)
  t.is((await fact()).remedy, null)
})
