import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import test from 'ava'
import { startChild } from '../../activities/child-process/child-program.ts'
import { ownVariables, runProcess, runProcessNow, startProcess, systemEnvironment } from '../../lib/child-process.ts'

process.env.BERTH_CANARY = 'secret of the host'
delete process.env.BERTH_UNSET
const env = '/usr/bin/env'

test('a program finds only the named variables in its environment', async t => {
  t.deepEqual(await runProcess(env, []), { stdout: '', stderr: '' })
  t.deepEqual(await runProcess(env, [], { env: { A: 'b', C: undefined } }), { stdout: 'A=b\n', stderr: '' })
  const started = startProcess(env, [], { stdio: ['ignore', 'pipe', 'ignore'] })
  t.is(await text(started.stdout!), '')
  t.throws(() => runProcessNow('/bin/sh', ['-c', 'test -z "$BERTH_CANARY"; exit 3']), { message: /Command failed/ })
  runProcessNow('/bin/sh', ['-c', 'test -z "$BERTH_CANARY"'])
})

test('our own variables are passed on by name, and only those that are set', async t => {
  t.deepEqual(ownVariables(['BERTH_CANARY', 'BERTH_UNSET']), { BERTH_CANARY: 'secret of the host' })
  const handed = await runProcess(env, [], { env: ownVariables(['BERTH_CANARY']) })
  t.is(handed.stdout, 'BERTH_CANARY=secret of the host\n')
})

test('system programs are found, and their errors are reported', async t => {
  const options = { env: systemEnvironment }
  t.is((await runProcess('sh', ['-c', 'echo said; echo told >&2'], options)).stdout, 'said\n')
  const failed = await t.throwsAsync(runProcess('sh', ['-c', 'echo said; echo told >&2; exit 4'], options))
  t.like(failed, { code: 4, stdout: 'said\n', stderr: 'told\n' })
  await t.throwsAsync(runProcess('no-such-program', [], options), { code: 'ENOENT' })
  const [error] = await once(startProcess('no-such-program', [], options), 'error')
  t.is(error.code, 'ENOENT')
})

test('children that handle untrusted files have an empty environment from their first instruction on', async t => {
  for (const name of ['archives', 'overlay', 'placement', 'snapshots']) {
    const child = startChild(name, ['ignore', 'ignore', 'inherit', 'ipc', 'ignore'])
    // Node adds only the descriptor of its channel.
    t.regex(await readFile(`/proc/${child.pid}/environ`, 'latin1'), /^(NODE_CHANNEL_\w+=\w+\0)+$/, name)
    child.kill('SIGKILL')
    await once(child, 'close')
  }
})

test('a program that takes longer than it may is killed', async t => {
  const error = await t.throwsAsync(runProcess('sleep', ['600'], { env: systemEnvironment, timeoutMs: 50 }))
  t.like(error, { killed: true, signal: 'SIGKILL', stdout: '' })
})
