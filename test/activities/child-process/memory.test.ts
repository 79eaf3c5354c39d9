import { spawn } from 'node:child_process'
import { once } from 'node:events'
import test from 'ava'
import { residentBytes, watchResident } from '../../../activities/child-process/memory.ts'

const grow = 'const all = []; setInterval(() => all.push(Buffer.alloc(4e6, 1)), 10)'

test('a process that exceeds its limit is reported once', async t => {
  const child = spawn(process.execPath, ['-e', grow], { env: {} })
  t.true(residentBytes(child.pid!) > 0)
  const limit = 150 * 1024 ** 2
  await new Promise<void>(resolve => watchResident(child.pid!, limit, resolve))
  t.true(residentBytes(child.pid!) > limit)
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.is(residentBytes(child.pid!), 0)
})
