import { readFileSync } from 'node:fs'
import test from 'ava'
import { parseConfig } from '../../policy/config.ts'

const masterKey = { BERTH_MASTER_KEY: 'ab'.repeat(32) }
const page = readFileSync(new URL('../../docs/settings.md', import.meta.url), 'utf8')
const names = [...page.matchAll(/^\| `([A-Z0-9_]+)`/gm)].map(([, name]) => name!)

test('an empty setting counts as missing', t => {
  t.true(names.length > 80)
  const empty = Object.fromEntries(names.map(name => [name, '']))
  t.deepEqual(parseConfig({ ...empty, ...masterKey }, '/'), parseConfig(masterKey, '/'))
})
