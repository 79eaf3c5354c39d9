import type { Notifications } from '../../../db/notifications.ts'
import { News } from '../../pipeline/news.ts'

/** Waits for the end of operations. */
export class Outcomes extends News {
  constructor(notifications: Notifications) {
    super(notifications, 'operations')
  }
}
