import type { Boot } from '../../../activities/hosts/boot.ts'

/** A host that stays in this boot. */
export const inBoot = (id: string): Boot => ({ id, settle: async () => id })
