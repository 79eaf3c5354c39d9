import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { productArguments } from '../kit/product.ts'

for (const name of ['setup', 'proxy'])
  test(`the process ${name} refuses plain HTTP to other machines before it does anything`, async t => {
    const env = { PATH: process.env.PATH, BERTH_DATA: '/dev/null/data', FILES_URL: 'http://files.example.com' }
    const child = spawn(process.execPath, productArguments(`workers/${name}`), {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    child.stderr.on('data', chunk => {
      said += chunk
    })
    const [code] = await once(child, 'close')
    t.is(code, 1)
    t.regex(said, /by plain http \(FILES_URL=http:\/\/files\.example\.com\)/)
  })

test('berth up refuses plain HTTP before it starts anything', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-plain-'))
  chmodSync(folder, 0o711)
  const nobody = { DATABASE_URL: 'postgres://a@127.0.0.1:9/a', TEMPORAL_ADDRESS: '127.0.0.1:9' }
  const env = {
    PATH: process.env.PATH,
    BERTH_DATA: join(folder, 'data'),
    FILES_URL: 'http://files.example.com',
    ...nobody,
  }
  const child = spawn(process.execPath, [...productArguments('cli/main'), 'up'], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.teardown(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM')
      await once(child, 'close')
    }
    rmSync(folder, { recursive: true, force: true })
  })
  let said = ''
  const started = new Promise(resolve =>
    child.stderr.on('data', chunk => {
      said += chunk
      if (said.includes('Starting Berth')) resolve('begun')
    }),
  )
  t.deepEqual(await Promise.race([once(child, 'close'), started]), [1, null], said)
  t.regex(said, /by plain http \(FILES_URL=http:\/\/files\.example\.com\)/)
})

test('no program reads its settings without that check, except the health check', t => {
  const folder = fileURLToPath(new URL('../../workers/', import.meta.url))
  const past = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts'))
    .filter(name => /parseConfig\(process\.env/.test(readFileSync(folder + name, 'utf8')))
  t.deepEqual(past, ['health.ts'])
})
