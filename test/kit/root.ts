/**
 * For the first line of a test that changes what belongs to root, as `berth up` does for its protections. Throws without root: a test
 * that was not registered there would be missing and look like one that passed.
 */
export function demandRoot(): void {
  if (process.getuid?.() !== 0) throw new Error('This test changes the kernel and has to run as root.')
}
