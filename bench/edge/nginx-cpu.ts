import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Seconds of CPU that the workers of an nginx have used, to the nanosecond; `folder` has its `nginx.pid`. */
export async function cpuSeconds(folder: string): Promise<number> {
  const master = (await readFile(join(folder, 'nginx.pid'), 'utf8')).trim()
  const pids = (await readFile(`/proc/${master}/task/${master}/children`, 'utf8')).trim().split(' ')
  const spent = pids.map(async pid => Number((await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ')[0]))
  return (await Promise.all(spent)).reduce((sum, each) => sum + each, 0) / 1e9
}
