import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const program = (name: string) => fileURLToPath(new URL(`../../workers/${name}.ts`, import.meta.url))

for (const name of ['setup', 'proxy'])
  test(`the process ${name} refuses plain http to other machines before it does anything`, async t => {
    const env = { PATH: process.env.PATH, BERTH_DATA: '/dev/null/data', FILES_URL: 'http://files.example.com' }
    const child = spawn(process.execPath, ['--import=tsx', program(name)], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    t.teardown(() => child.kill('SIGKILL'))
    let said = ''
    child.stderr.on('data', chunk => {
      said += chunk
    })
    const [code] = await once(child, 'close')
    t.is(code, 1)
    t.regex(said, /by plain http \(FILES_URL=http:\/\/files\.example\.com\)/)
  })

test('no program reads its settings past that check, but the one that asks for health', t => {
  const folder = fileURLToPath(new URL('../../workers/', import.meta.url))
  const past = readdirSync(folder).filter(name => /parseConfig\(process\.env/.test(readFileSync(folder + name, 'utf8')))
  t.deepEqual(past, ['health.ts'])
})
