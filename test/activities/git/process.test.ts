import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'ava'
import { type GitScope, runGit } from '../../../activities/git/process.ts'
import { processStat } from '../../../lib/process-stat.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const repository = mkdtempSync(join(tmpdir(), 'berth-git-process-'))
const folder = openSync(repository, 'r')
test.after.always('remove the folder', () => {
  closeSync(folder)
  rmSync(repository, { recursive: true })
})

/** A shell in place of git, which prints what git would get. */
const scope = (signal = new AbortController().signal): GitScope => ({
  ...{ git: '/bin/sh', repository, owner: null, folder, signal },
  fileBytes: 1_000_000,
  credential: null,
  proxyCredential: null,
  scrub: text => text.replaceAll('secret', '***'),
})

test('git has 1 GiB of address space, files of the requested size, and no core dump', async t => {
  const { output } = await runGit(scope(), ['-c', 'ulimit -v; ulimit -f; ulimit -c; umask'])
  t.is(output.toString(), '1048576\n1954\n0\n0022\n')
})

test('git finds only the configuration, helper, terminal and protocol of the fetch', async t => {
  const { output } = await runGit(scope(), ['-c', 'env'])
  const env = Object.fromEntries(
    output
      .toString()
      .trim()
      .split('\n')
      .map(line => line.split(/=(.*)/s)),
  )
  t.like(env, {
    HOME: repository,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ALLOW_PROTOCOL: 'http:https',
    GIT_PROTOCOL_FROM_USER: '0',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_LFS_SKIP_SMUDGE: '1',
  })
  t.deepEqual(
    Object.keys(env).filter(name => /berth|database|node/i.test(name)),
    [],
  )
})

test('a cancelled process ends with all of its children', async t => {
  t.timeout(30_000)
  const given = new AbortController()
  let pid = 0
  const running = runGit(scope(given.signal), ['-c', 'sleep 60 & echo $!; wait'], {
    onOutput: piece => {
      pid = Number(piece)
    },
  })
  await comesTrue(() => pid > 0)
  given.abort(new Error('given up'))
  await t.throwsAsync(running, { message: 'given up' })
  await comesTrue(() => ['Z', undefined].includes(processStat(pid)?.state))
  await t.throwsAsync(runGit(scope(given.signal), ['-c', 'true']), { message: 'given up' })
})

test('the last 40 lines of stderr are returned, without secrets', async t => {
  const { stderr, code } = await runGit(scope(), ['-c', 'for n in $(seq 50); do echo "secret $n" >&2; done; exit 3'])
  t.is(code, 3)
  t.deepEqual(
    stderr.split('\n'),
    Array.from({ length: 40 }, (_, n) => `*** ${n + 11}`),
  )
})
