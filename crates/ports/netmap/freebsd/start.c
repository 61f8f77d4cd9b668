/*
 * Starts FreeBSD's kernel for amd64 in QEMU, in the place of FreeBSD's own loader: a multiboot program (qemu -kernel), whose modules are the kernel and
 * an image of its root. It puts the segments of the kernel where they belong, describes the modules and the memory as sys/linker.h has it,
 * and enters the kernel in 64-bit mode, with all addresses mapped to the first GB of memory.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* The header that says what this is: magic number, flags (the memory is to be described), sum. */
__attribute__((section(".multiboot"), used)) static const u32 header[3] = { 0x1badb002, 2, 0u - 0x1badb002 - 2 };

__attribute__((packed)) struct boot {
	u32 flags, mem_lower, mem_upper, boot_device, cmdline, module_count, modules, symbols[4], map_bytes, map;
};
struct module { u32 start, end, text, reserved; };
__attribute__((packed)) struct range { u32 bytes_behind; u64 base, length; u32 kind; };
__attribute__((packed)) struct elf { u8 ident[16]; u16 type, machine; u32 version; u64 entry, segments, sections; u32 flags; u16 size, segment_bytes, segment_count; };
struct segment { u32 type, flags; u64 offset, virt, phys, in_file, in_memory, align; };

static u64 level4[512] __attribute__((aligned(4096)));
static u64 level3[512] __attribute__((aligned(4096)));
static u64 level2[512] __attribute__((aligned(4096)));
/* What is said of the modules: records of a type, a length and a value, padded to 8 bytes. */
static u8 said[8192] __attribute__((aligned(4096)));
static u32 said_bytes;
static const char environment[] =
	"vfs.root.mountfrom=ufs:/dev/md0\0vfs.root.mountfrom.options=rw\0init_path=/bin/init\0console=comconsole\0kern.hz=100\0"
	"hint.uart.0.at=isa\0hint.uart.0.port=0x3F8\0hint.uart.0.flags=0x10\0hint.uart.0.irq=4\0"
	"hint.atkbdc.0.at=isa\0hint.atkbdc.0.port=0x060\0";

enum { NAME = 1, TYPE, ADDRESS, SIZE, ENVIRONMENT = 0x8006, HOW = 0x8007, END = 0x8008, MEMORY = 0x9001 };

static void copy(void *to, const void *from, u32 bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void say(u32 type, const void *value, u32 bytes)
{
	u32 head[2] = { type, bytes };
	copy(said + said_bytes, head, 8);
	copy(said + said_bytes + 8, value, bytes);
	said_bytes += 8 + ((bytes + 7) & ~7u);
}

static void say_number(u32 type, u64 number) { say(type, &number, 8); }

static void say_module(const char *name, u32 name_bytes, const char *type, u32 type_bytes, u64 address, u64 size)
{
	say(NAME, name, name_bytes);
	say(TYPE, type, type_bytes);
	say_number(ADDRESS, address);
	say_number(SIZE, size);
}

void enter(u32 entry_low, u32 entry_high, u32 said_at, u32 end, u32 tables);

void start(u32 magic, const struct boot *boot)
{
	const struct module *kernel = (const void *)boot->modules, *root = kernel + 1;
	if (magic != 0x2badb002 || boot->module_count != 2)
		return;
	const struct elf *elf = (const void *)kernel->start;
	u32 top = 0;
	for (u32 i = 0; i < elf->segment_count; i++) {
		const struct segment *segment = (const void *)(kernel->start + (u32)elf->segments + i * elf->segment_bytes);
		if (segment->type != 1)
			continue;
		/* Virtual addresses end as physical ones do. */
		u8 *to = (u8 *)((u32)segment->virt & 0x3fffffff);
		copy(to, (const void *)(kernel->start + (u32)segment->offset), (u32)segment->in_file);
		for (u32 at = (u32)segment->in_file; at < (u32)segment->in_memory; at++)
			to[at] = 0;
		top = (u32)to + (u32)segment->in_memory;
	}
	u32 end = (root->end + 0xfff) & ~0xfffu, how = 0;
	say_module("/kernel", 8, "elf kernel", 11, 0x200000, top - 0x200000);
	say_number(ENVIRONMENT, (u32)environment);
	say(HOW, &how, 4);
	say_number(END, end);
	static u8 map[20 * 64];
	u32 map_bytes = 0;
	for (u32 at = boot->map; at < boot->map + boot->map_bytes && map_bytes < sizeof(map);) {
		const struct range *range = (const void *)at;
		copy(map + map_bytes, &range->base, 20);
		map_bytes += 20;
		at += range->bytes_behind + 4;
	}
	say(MEMORY, map, map_bytes);
	say_module("/root", 6, "mfs_root", 9, root->start, root->end - root->start);
	u64 none = 0;
	copy(said + said_bytes, &none, 8);
	for (u32 i = 0; i < 512; i++) {
		level4[i] = (u32)level3 | 3;
		level3[i] = (u32)level2 | 3;
		level2[i] = (u64)i << 21 | 0x83;
	}
	enter((u32)elf->entry, (u32)(elf->entry >> 32), (u32)said, end, (u32)level4);
}

__asm__(
	".globl _start\n_start:\n mov $stack_top, %esp\n push %ebx\n push %eax\n call start\n1: hlt\n jmp 1b\n"
	".globl enter\nenter:\n"
	" mov 4(%esp), %edi\n mov 8(%esp), %esi\n mov 12(%esp), %edx\n mov 16(%esp), %ebx\n mov 20(%esp), %ecx\n"
	" cli\n mov %cr4, %eax\n or $0x20, %eax\n mov %eax, %cr4\n mov %ecx, %cr3\n" /* physical addresses of more than 32 bits */
	" mov $0xc0000080, %ecx\n rdmsr\n or $0x100, %eax\n wrmsr\n" /* 64-bit mode, once there are pages */
	" mov 12(%esp), %edx\n mov %cr0, %eax\n or $0x80000000, %eax\n mov %eax, %cr0\n"
	" lgdt descriptor\n ljmp $8, $long_mode\n"
	".code64\nlong_mode:\n mov $16, %eax\n mov %eax, %ds\n mov %eax, %es\n mov %eax, %ss\n"
	/* What the kernel finds on its stack: a return address, where the modules are described, where memory is free. */
	" mov $stack_top - 64, %esp\n movl $0, (%rsp)\n movl %edx, 4(%rsp)\n movl %ebx, 8(%rsp)\n"
	" shl $32, %rsi\n mov %edi, %eax\n or %rsi, %rax\n jmp *%rax\n"
	".code32\n"
	".data\n.align 8\ngdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff\ndescriptor: .word 23\n .long gdt\n"
	".bss\n.align 16\n.skip 16384\nstack_top:\n.text\n");
