import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Seconds of CPU that the workers of an nginx have used, to the nanosecond; `folder` has its `nginx.pid`. */
export async function cpuSeconds(folder: string): Promise<number> {
  const master = (await readFile(join(folder, 'nginx.pid'), 'utf8')).trim()
  const pids = (await readFile(`/proc/${master}/task/${master}/children`, 'utf8')).trim().split(' ')
  const spent = await Promise.all(pids.map(async pid => ((await isWorker(pid)) ? spentBy(pid) : 0)))
  return spent.reduce((sum, each) => sum + each, 0) / 1e9
}

/** Not one of those that tend a cache. */
const isWorker = async (pid: string): Promise<boolean> =>
  (await readFile(`/proc/${pid}/cmdline`, 'utf8')).startsWith('nginx: worker')

async function spentBy(pid: string): Promise<number> {
  const nanoseconds = Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0])
  if (!nanoseconds) throw new Error('this kernel does not say what a process has used')
  return nanoseconds
}
