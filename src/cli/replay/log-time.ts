const ZERO = 48
const LENGTH = 27 // 17/May/2015:10:05:03 +0000 and the bracket that closes it

const MONTHS = new Map(
  ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'].map((name, month) => [
    (name.charCodeAt(0) << 16) | (name.charCodeAt(1) << 8) | name.charCodeAt(2),
    month,
  ]),
)
const DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/**
 * The moment written at `at`, as `17/May/2015:10:05:03 +0200]`, in whole seconds since the epoch; −1 if it is none.
 *
 * Years from 1971 to 2199: nothing was logged in others, and what is sorted by these seconds must fit beside a sequence
 * number in 53 bits.
 */
export function readLogTime(bytes: Uint8Array, at: number, end: number): number {
  if (end - at < LENGTH) return -1
  if (bytes[at + 2] !== 47 || bytes[at + 6] !== 47 || bytes[at + 11] !== 58 || bytes[at + 14] !== 58) return -1
  if (bytes[at + 17] !== 58 || bytes[at + 20] !== 32 || bytes[at + 26] !== 93) return -1
  const month = MONTHS.get((bytes[at + 3] << 16) | (bytes[at + 4] << 8) | bytes[at + 5])
  const day = twoDigits(bytes, at)
  const year = twoDigits(bytes, at + 7) * 100 + twoDigits(bytes, at + 9)
  const hour = twoDigits(bytes, at + 12)
  const minute = twoDigits(bytes, at + 15)
  const second = twoDigits(bytes, at + 18)
  const zone = readZone(bytes, at + 21)
  // Written so that NaN, which stands for "no digit", fails as well. A leap second is the first one of the next minute.
  if (month === undefined || !(day >= 1 && day <= DAYS[month] && year >= 1971 && year <= 2199)) return -1
  if (!(hour <= 23 && minute <= 59 && second <= 60 && Math.abs(zone) < 86_400)) return -1
  if (month === 1 && day === 29 && !isLeap(year)) return -1
  return daysSinceEpoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone
}

function readZone(bytes: Uint8Array, at: number): number {
  const size = twoDigits(bytes, at + 1) * 3600 + twoDigits(bytes, at + 3) * 60
  if (bytes[at] === 43) return size
  return bytes[at] === 45 ? -size : Number.NaN
}

function twoDigits(bytes: Uint8Array, at: number): number {
  const tens = bytes[at] - ZERO
  const ones = bytes[at + 1] - ZERO
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

// Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, so that the leap day comes last.
function daysSinceEpoch(year: number, month: number, day: number): number {
  const shifted = month < 2 ? year - 1 : year
  const dayOfYear = Math.floor((153 * ((month + 10) % 12) + 2) / 5) + day - 1
  return (
    shifted * 365 +
    Math.floor(shifted / 4) -
    Math.floor(shifted / 100) +
    Math.floor(shifted / 400) +
    dayOfYear -
    719_468
  )
}
