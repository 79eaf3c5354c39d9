import { link, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { MiB } from '../../lib/bytes.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { syncFolder } from '../../lib/folders/sync-folder.ts'

/** Created under another name, and linked to its own when complete: EEXIST when there is a file already, which is left as it is. */
export async function makeImage(image: string, sizeMb: number): Promise<void> {
  const draft = `${image}.new`
  await rm(draft, { force: true })
  const file = await open(draft, 'wx', 0o600)
  await file.truncate(sizeMb * MiB).finally(() => file.close())
  const extended = 'lazy_itable_init=1,lazy_journal_init=1,nodiscard'
  await command('mkfs.ext4', ['-q', '-F', '-m', '0', '-i', '8192', '-E', extended, draft])
  await link(draft, image)
  await rm(draft)
  await syncFolder(dirname(image))
}

/** The file grows, and never shrinks; the file system in it follows, on the disk too: one that is larger than its file cannot be mounted. */
export async function growFile(image: string, bytes: number): Promise<void> {
  const file = await open(image, 'r+')
  try {
    await file.truncate(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** A file system that is not mounted grows to the size of its file. */
export async function growUnmounted(image: string): Promise<void> {
  await check(image)
  await command('resize2fs', [image])
}

/** Repairs a file system that is not mounted. */
export async function check(image: string): Promise<void> {
  await command('e2fsck', ['-f', '-y', image]).catch(error => {
    if (error.code !== 1) throw error // 1 = repaired
  })
}

/**
 * Gives the file of a file system that is not mounted the size that this has by its superblock, and repairs it. Older versions did not sync the
 * file as it grew, so a power cut could leave it shorter. A damaged superblock may state any size, so its checksum is verified first.
 */
export async function lengthen(image: string): Promise<void> {
  await command('dumpe2fs', ['-h', image])
  await growFile(image, (await sizesOf(image)).system)
  await check(image)
}

/** Bytes of the file, and of the file system in it by its superblock, which leaves less than a block unused. The file's own, if there is none in it. */
export async function sizesOf(image: string): Promise<{ file: number; system: number }> {
  const file = await open(image, 'r')
  try {
    // The superblock is 1024 bytes in: block count at 4, block size as a power of two over 1024 at 24, magic number at 56.
    const { buffer } = await file.read(Buffer.alloc(64), 0, 64, 1024)
    const { size } = await file.stat()
    const blockSize = 1024 * 2 ** Math.min(6, buffer.readUInt32LE(24))
    const system = buffer.readUInt32LE(4) * blockSize
    const isWhole = system <= size && size <= system + blockSize
    return { file: size, system: isWhole || buffer.readUInt16LE(56) !== 0xef53 ? size : system }
  } finally {
    await file.close()
  }
}

/** Whether a file system is smaller than its file. */
export async function smallerThanItsFile(image: string): Promise<boolean> {
  const { file, system } = await sizesOf(image)
  return system < file
}

/** Runs a program of the system. Rejects with NoSpaceLeft, or with an error that has `stderr`. */
export async function command(program: string, args: string[]): Promise<void> {
  try {
    await runProcess(program, args, { env: systemEnvironment })
  } catch (error) {
    if (/no space left on device/i.test(String((error as { stderr?: string }).stderr))) {
      throw new NoSpaceLeft('The host has no disk space left.', { cause: error })
    }
    throw error
  }
}
