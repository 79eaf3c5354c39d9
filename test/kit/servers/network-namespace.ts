import { execFile, spawn } from 'node:child_process'
import { readlink } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { ExecutionContext } from 'ava'
import { comesTrue } from '../comes-true.ts'

const run = promisify(execFile)

/** A network namespace with its own rules, so that nothing of this machine is changed; removed with the test, or after a number of seconds. For root. */
export async function namespace(t: Pick<ExecutionContext, 'teardown'>, { seconds = 120 } = {}) {
  const keeper = spawn('unshare', ['--net', 'sleep', String(seconds)], { stdio: 'ignore' })
  t.teardown(() => keeper.kill('SIGKILL'))
  const ours = await readlink('/proc/self/ns/net')
  await comesTrue(async () => (await readlink(`/proc/${keeper.pid}/ns/net`)) !== ours)
  const through = ['nsenter', `--net=/proc/${keeper.pid}/ns/net`]
  const inside = (...words: string[]) => run(through[0]!, [...through.slice(1), ...words])
  return {
    /** Of a process that is in it. */
    pid: keeper.pid!,
    through,
    run: inside,
    /** Every rule of the filter table, as the tool writes it. */
    rules: async (tool = 'iptables') => (await inside(tool, '-w', '-S')).stdout.split('\n'),
  }
}
