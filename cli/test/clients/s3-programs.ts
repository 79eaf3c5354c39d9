import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ensurePythonPackages, type PythonPackages, pythonFolder } from '../../services/python-packages.ts'
import { findProgram, installPackages, MissingPart } from '../../services/system-packages.ts'
import type { Say } from '../../terminal/terminal.ts'
import { runsFilesOf } from '../wanted-files.ts'

/** Clients of S3 that tests run: of each the program, with the first arguments. */
export interface S3Programs {
  /** Has boto3. */
  python: string[]
  aws: string[]
  s3cmd: string[]
  rclone: string[]
  restic: string[]
}

/**
 * boto3, the AWS CLI and s3cmd with everything that they import, so that every machine has the same. Since 1.36 and 1.37 the first two
 * send checksums in trailers unless they are configured not to.
 */
const python: PythonPackages = {
  name: 's3-programs',
  what: 'the S3 programs in Python (boto3, AWS CLI, s3cmd)',
  packages: [
    ...['awscli==1.46.3', 'boto3==1.44.8', 'botocore==1.44.8', 's3transfer==0.19.3', 's3cmd==2.4.0'],
    ...['colorama==0.4.6', 'docutils==0.19', 'jmespath==1.1.0', 'pyasn1==0.6.5', 'python-dateutil==2.9.0.post0'],
    ...['python-magic==0.4.27', 'PyYAML==6.0.4', 'rsa==4.7.2', 'six==1.17.0', 'urllib3==2.8.0'],
  ],
}

/** Whether a test run needs the S3 programs. */
export const needsS3Programs = (files: readonly string[]): boolean => runsFilesOf(files, 's3-clients')

/** The S3 programs on this machine. Throws MissingPart if one is missing. */
export function findS3Programs(): S3Programs {
  const folder = pythonFolder(python)
  const program = join(folder, 'bin/python')
  const [rclone, restic] = ['rclone', 'restic'].map(name => findProgram(name, process.env.PATH))
  if (!existsSync(program) || !rclone || !restic)
    throw new MissingPart('The S3 programs are missing. Install them with:  ./berth test test/s3-clients/*.test.ts')
  // Scripts contain the path at which they were installed, before the folder had its name, so Python runs them.
  const s3cmd = [program, join(folder, 'bin/s3cmd')]
  return { python: [program], aws: [program, '-m', 'awscli'], s3cmd, rclone: [rclone], restic: [restic] }
}

/** Installs the S3 programs that are missing: Debian's rclone and restic, and the Python packages in the cache. Rejects with MissingPart. */
export async function ensureS3Programs(say: Say): Promise<void> {
  const missing = ['rclone', 'restic'].filter(name => !findProgram(name, process.env.PATH))
  if (missing.length > 0)
    await installPackages({ what: `S3 programs that tests run (${missing.join(', ')})`, packages: missing }, say)
  await ensurePythonPackages(python, say)
}
